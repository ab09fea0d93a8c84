import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Clients that sign their requests, at the name server args[0] and its broker args[1]. Lines on stdin, separated by tabs:
 * access key, secret key ("" for both: no signatures), SEND, BATCH, PULL, PUSH, VIEW or REQUEST, topic, group. The group of a
 * REQUEST is that of the consumer that replies, after its own access key and secret key: KEY/SECRET/GROUP. A line of output
 * for each: `ok`, `refused CODE`, or `failed TEXT`.
 */
public class SignedClient {
    private static final long WAIT_SECONDS = 60;
    private static String names;
    private static String broker;
    private static int number;

    interface Call {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        names = args[0];
        broker = args[1];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            RPCHook hook = words[0].isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(words[0], words[1]));
            System.out.println(result(() -> call(hook, words[2], words[3], words[4])));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String result(Call call) {
        try {
            call.run();
            return "ok";
        } catch (MQBrokerException error) {
            return "refused " + error.getResponseCode();
        } catch (MQClientException error) {
            Throwable cause = error.getCause();
            if (cause instanceof MQBrokerException) {
                return "refused " + ((MQBrokerException) cause).getResponseCode();
            }
            return error.getResponseCode() > 0 ? "refused " + error.getResponseCode() : "failed " + error;
        } catch (Throwable error) {
            return "failed " + error;
        }
    }

    private static void call(RPCHook hook, String action, String topic, String group) throws Exception {
        switch (action) {
            case "SEND": send(hook, topic, false, false); break;
            case "BATCH": send(hook, topic, true, false); break;
            case "VIEW": send(hook, topic, false, true); break;
            case "PULL": pull(hook, topic, group); break;
            case "PUSH": push(hook, topic, group); break;
            case "REQUEST": request(hook, topic, group); break;
            default: throw new IllegalArgumentException(action);
        }
    }

    private static void send(RPCHook hook, String topic, boolean isBatch, boolean views) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("signed-producer", hook);
        producer.setNamesrvAddr(names);
        producer.setInstanceName("p" + number++);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            Message message = new Message(topic, "tag", "key", "body".getBytes(StandardCharsets.UTF_8));
            SendResult sent = isBatch ? producer.send(java.util.Collections.singletonList(message)) : producer.send(message);
            if (views && !producer.viewMessage(topic, sent.getMsgId()).getTopic().equals(topic)) {
                throw new IllegalStateException("another message");
            }
        } finally {
            producer.shutdown();
        }
    }

    private static void pull(RPCHook hook, String topic, String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, hook);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("c" + number++);
        consumer.start();
        try {
            consumer.pull(new MessageQueue(topic, broker, 0), "*", 0, 32);
        } finally {
            consumer.shutdown();
        }
    }

    private static void push(RPCHook hook, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("c" + number++);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        CountDownLatch received = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            received.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            if (!received.await(WAIT_SECONDS, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no message");
            }
        } finally {
            consumer.shutdown();
        }
    }

    /** Asks three times; a consumer and a producer of another account reply. */
    private static void request(RPCHook hook, String topic, String replier) throws Exception {
        String[] words = replier.split("/");
        RPCHook other = new AclClientRPCHook(new SessionCredentials(words[0], words[1]));
        DefaultMQProducer replying = new DefaultMQProducer("signed-replies", other);
        replying.setNamesrvAddr(names);
        replying.setInstanceName("r" + number++);
        replying.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(words[2], other, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("c" + number++);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                if (one.getProperty("CORRELATION_ID") != null) {
                    try {
                        replying.send(MessageUtil.createReplyMessage(one, one.getBody()));
                    } catch (Exception error) {
                        error.printStackTrace();
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer asking = new DefaultMQProducer("signed-requests", hook);
        asking.setNamesrvAddr(names);
        asking.setInstanceName("p" + number++);
        asking.start();
        try {
            for (int i = 0; i < 3; i++) {
                byte[] body = ("question " + i).getBytes(StandardCharsets.UTF_8);
                Message reply = asking.request(new Message(topic, body), WAIT_SECONDS * 1000);
                if (!java.util.Arrays.equals(reply.getBody(), body)) {
                    throw new IllegalStateException("another reply");
                }
            }
        } finally {
            asking.shutdown();
            consumer.shutdown();
            replying.shutdown();
        }
    }
}
