import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * A member of a group that other clients share: NAMES GROUP TOPIC orderly|concurrent|broadcasting. It prints a line for each message,
 * "CALL queue offset began ended body" with times in milliseconds, and leaves the group when its input ends.
 */
public class PushMember {
    private static final int CALL_MS = 3;

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        if (args[3].equals("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (args[3].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                note(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                note(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        while (System.in.read() >= 0) {
            // until the input ends
        }
        consumer.shutdown();
        System.out.println("CLOSED");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void note(List<MessageExt> messages) {
        long began = System.currentTimeMillis();
        try {
            Thread.sleep(CALL_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        long ended = System.currentTimeMillis();
        for (MessageExt one : messages) {
            String body = new String(one.getBody(), StandardCharsets.UTF_8);
            System.out.println("CALL " + one.getQueueId() + " " + one.getQueueOffset() + " " + began + " " + ended + " " + body);
            System.out.flush();
        }
    }
}
