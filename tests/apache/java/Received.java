import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer: Received NAMES GROUP SECONDS COUNT TOPIC...
 * It prints `ready`, a line for each message, and ends after COUNT messages or SECONDS. A message that wants a reply gets
 * one, its body with "java:" before it.
 */
public class Received {
    public static void main(String[] args) throws Exception {
        CountDownLatch wanted = new CountDownLatch(Integer.parseInt(args[3]));
        DefaultMQProducer producer = new DefaultMQProducer(args[1] + "-replies");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (int n = 4; n < args.length; n++) {
            consumer.subscribe(args[n], "*");
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                print(message);
                if (message.getUserProperty("REPLY_TO_CLIENT") != null || message.getProperty("REPLY_TO_CLIENT") != null) {
                    byte[] body = ("java:" + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                    try {
                        producer.send(MessageUtil.createReplyMessage(message, body), 10_000);
                    } catch (Exception error) {
                        error.printStackTrace();
                    }
                }
                wanted.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("ready");
        wanted.await(Integer.parseInt(args[2]), TimeUnit.SECONDS);
        Thread.sleep(500); // one message too many would come now
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void print(MessageExt message) {
        String body = Base64.getEncoder().encodeToString(message.getBody());
        System.out.println(String.join("\t", "message", message.getTopic(), message.getMsgId(), "" + message.getTags(),
            "" + message.getKeys(), "" + message.getFlag(), "" + message.getProperty("colour"), body));
        System.out.flush();
    }
}
