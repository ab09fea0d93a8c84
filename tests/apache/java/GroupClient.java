import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache's clients at the NameServer args[0], as members of groups that other clients use too. Lines on stdin, each answered
 * by lines after "= ", and DONE:
 *
 * SEND topic broker queueId count size: sends bodies PREFIX-number, filled up to size
 * OFFSET group topic broker queueId: the group's offset at the broker
 * READ group topic count: count messages of a lite pull consumer of the group, whose offsets it then commits
 */
public class GroupClient {
    private static final long READ_MILLIS = 120_000;

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("rocketflow-producer");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "SEND":
                    send(producer, words);
                    break;
                case "OFFSET":
                    offset(args[0], words);
                    break;
                default:
                    read(args[0], words);
            }
            System.out.println("DONE");
        }
        Runtime.getRuntime().halt(0); // whatever threads the clients left
    }

    private static void send(DefaultMQProducer producer, String[] words) throws Exception {
        MessageQueue queue = new MessageQueue(words[1], words[2], Integer.parseInt(words[3]));
        for (int number = 0; number < Integer.parseInt(words[4]); number++) {
            byte[] body = new byte[Integer.parseInt(words[5])];
            Arrays.fill(body, (byte) '.');
            byte[] text = (words[3] + "-" + number).getBytes(StandardCharsets.UTF_8);
            System.arraycopy(text, 0, body, 0, text.length);
            producer.send(new Message(words[1], number % 2 == 0 ? "even" : "odd", "key" + number, body), queue);
        }
    }

    private static void offset(String names, String[] words) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(words[1]);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("offset");
        consumer.start();
        System.out.println("= " + consumer.fetchConsumeOffset(new MessageQueue(words[2], words[3], Integer.parseInt(words[4])), true));
        consumer.shutdown();
    }

    private static void read(String names, String[] words) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(words[1]);
        consumer.setNamesrvAddr(names);
        consumer.setAutoCommit(false);
        consumer.subscribe(words[2], "*");
        consumer.start();
        int found = 0;
        long end = System.currentTimeMillis() + READ_MILLIS;
        while (found < Integer.parseInt(words[3]) && System.currentTimeMillis() < end) {
            List<MessageExt> messages = consumer.poll(1000);
            for (MessageExt one : messages == null ? Collections.<MessageExt>emptyList() : messages) {
                System.out.println("= " + one.getQueueId() + "\t" + one.getQueueOffset());
                found++;
            }
        }
        consumer.commitSync();
        consumer.shutdown();
    }
}
