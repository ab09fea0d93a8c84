import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache's own client against the name server args[0] and its broker args[1], which has topic args[2]. Lines on stdin:
 * PULL topic queueId | SEND topic queueId base64(body) tags keys [delayLevel [deliverMillis]] | VIEW topic UNIQ_KEY | KEY topic key.
 */
public class Client {
    private static final long ROUTE_MILLIS = 60_000;

    public static void main(String[] args) {
        try {
            run(args);
            System.out.println("CLOSED");
        } catch (Exception error) {
            error.printStackTrace();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // the end of each client would take three seconds
    }

    private static void run(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("rocketflow-producer");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("rocketflow-consumer");
        consumer.setNamesrvAddr(args[0]);
        consumer.start();
        routed(consumer, args[2]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "PULL": pull(consumer, new MessageQueue(words[1], args[1], Integer.parseInt(words[2]))); break;
                case "SEND": send(producer, new MessageQueue(words[1], args[1], Integer.parseInt(words[2])), words); break;
                case "VIEW": print(consumer.viewMessage(words[1], words[2])); break;
                case "KEY":
                    producer.queryMessage(words[1], words[2], 32, 0, Long.MAX_VALUE).getMessageList().forEach(Client::print);
                    break;
                default: throw new IllegalArgumentException(line);
            }
        }
    }

    /** A broker says that it is up some ten seconds before it registers. */
    private static void routed(DefaultMQPullConsumer consumer, String topic) throws Exception {
        long end = System.currentTimeMillis() + ROUTE_MILLIS;
        while (true) {
            try {
                consumer.fetchSubscribeMessageQueues(topic);
                return;
            } catch (MQClientException error) {
                if (System.currentTimeMillis() > end) {
                    throw error;
                }
                Thread.sleep(50);
            }
        }
    }

    private static void pull(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long offset = consumer.minOffset(queue);
        long max = consumer.maxOffset(queue);
        System.out.println("BOUNDS\t" + queue.getTopic() + "\t" + queue.getQueueId() + "\t" + offset + "\t" + max);
        while (offset < max) {
            PullResult got = consumer.pull(queue, "*", offset, 32);
            if (got.getPullStatus() != PullStatus.FOUND) {
                throw new IllegalStateException(queue + " at " + offset + ": " + got);
            }
            got.getMsgFoundList().forEach(Client::print);
            offset = got.getNextBeginOffset();
        }
    }

    private static void send(DefaultMQProducer producer, MessageQueue queue, String[] words) throws Exception {
        Message message = new Message(queue.getTopic(), words[4], words[5], Base64.getDecoder().decode(words[3]));
        if (words.length > 6) {
            message.setDelayTimeLevel(Integer.parseInt(words[6]));
        }
        if (words.length > 7) {
            MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", words[7]);
        }
        SendResult sent = producer.send(message, queue);
        System.out.println(String.join("\t", "SENT", sent.getSendStatus().name(), "" + sent.getQueueOffset(), sent.getOffsetMsgId()));
    }

    private static void print(MessageExt message) {
        System.out.println(String.join("\t", "MESSAGE", message.getTopic(), "" + message.getQueueId(), "" + message.getQueueOffset(),
            "" + message.getCommitLogOffset(), "" + message.getStoreSize(), "" + message.getTags(), "" + message.getKeys(),
            Base64.getEncoder().encodeToString(message.getBody() == null ? new byte[0] : message.getBody())));
    }
}
