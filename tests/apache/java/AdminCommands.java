import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin's commands in one JVM: one command on each line of the input, its arguments separated by tabs. For each, a
 * line with the text of both of its outputs in Base64. `MESSAGE_ID` in a command is that of the last message sent here.
 *
 * Commands of this program itself: `@produce GROUP TOPIC QUEUE COUNT` sends messages by a producer that stays,
 * `@consume GROUP TOPIC COUNT` gets so many messages by a consumer and ends it, `@join GROUP TOPIC` starts one that stays.
 * `@trace GROUP TOPIC TRACE_TOPIC NUMBER` sends a message by a producer that writes its trace, and waits for the trace.
 * `@for SECONDS COMMAND...` runs a command that does not end by itself, and interrupts it then.
 */
public class AdminCommands {
    private static final long WAIT_SECONDS = 60;
    private static final List<Object> STAYING = new ArrayList<>();
    private static String messageId = "";
    private static volatile ByteArrayOutputStream printed;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        PrintStream failures = System.err;
        Runtime.getRuntime().addShutdownHook(new Thread(() -> failures.println("ended in: " + printed)));  // wrong options
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            printed = text;
            PrintStream both = new PrintStream(text, true, "UTF-8");
            System.setOut(both);
            System.setErr(both);
            String[] command = line.replace("MESSAGE_ID", messageId).split("\t");
            if (command[0].startsWith("@")) {
                try {
                    own(command);
                } catch (Exception error) {
                    error.printStackTrace(failures);
                    Runtime.getRuntime().halt(1);  // threads of clients would keep the process
                }
            } else {
                MQAdminStartup.main0(command, null);
            }
            both.flush();
            answers.println(Base64.getEncoder().encodeToString(text.toByteArray()));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void own(String[] command) throws Exception {
        switch (command[0]) {
            case "@produce":
                produce(command[1], command[2], Integer.parseInt(command[3]), Integer.parseInt(command[4]));
                break;
            case "@consume":
                consumer(command[1], command[2], Integer.parseInt(command[3])).shutdown();
                break;
            case "@join":
                join(command[1], command[2]);
                break;
            case "@trace":
                trace(command[1], command[2], command[3], Integer.parseInt(command[4]));
                break;
            case "@for":
                runFor(Long.parseLong(command[1]), Arrays.copyOfRange(command, 2, command.length));
                break;
            default:
                throw new IllegalArgumentException(command[0]);
        }
    }

    private static void runFor(long seconds, String[] command) throws Exception {
        Thread running = new Thread(() -> MQAdminStartup.main0(command, null));
        running.start();
        running.join(TimeUnit.SECONDS.toMillis(seconds));
        running.interrupt();
        running.join(TimeUnit.SECONDS.toMillis(WAIT_SECONDS));
        if (running.isAlive()) {
            throw new IllegalStateException(command[0] + " runs on");
        }
    }

    private static void join(String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = consumer(group, topic, 0);
        STAYING.add(consumer);
        int queues = consumer.fetchSubscribeMessageQueues(topic).size();
        long latest = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        while (owned(consumer, topic) < queues) {
            if (System.nanoTime() > latest) {
                throw new IllegalStateException(group + " did not get the queues of " + topic);
            }
            Thread.sleep(20);
        }
    }

    private static long owned(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(one -> one.getTopic().equals(topic)).count();
    }

    private static void produce(String group, String topic, int queue, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setInstanceName(group);
        producer.setClientIP("127.0.0.1");
        producer.setSendMsgTimeout(20_000);
        producer.start();
        STAYING.add(producer);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, "tag", "key" + i, ("message " + i).getBytes(StandardCharsets.UTF_8));
            message.getProperties().put(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, unique(i));
            SendResult sent = producer.send(message, (all, one, id) -> queue(all, (Integer) id), queue);
            messageId = sent.getOffsetMsgId();
        }
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();  // the next is far away
    }

    private static void trace(String group, String topic, String traceTopic, int number) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, true, traceTopic);
        producer.setInstanceName(group);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        Message message = new Message(topic, "tag", "traced", "traced".getBytes(StandardCharsets.UTF_8));
        message.getProperties().put(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, unique(number));
        producer.send(message, (all, one, id) -> queue(all, 1), null);
        long latest = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        while (!isKnown(producer, traceTopic, unique(number))) {
            if (System.nanoTime() > latest) {
                throw new IllegalStateException("no trace in " + traceTopic);
            }
            Thread.sleep(50);
        }
        producer.shutdown();
    }

    private static boolean isKnown(DefaultMQProducer producer, String topic, String key) throws InterruptedException {
        try {
            return !producer.queryMessage(topic, key, 1, 0, Long.MAX_VALUE).getMessageList().isEmpty();
        } catch (MQClientException none) {
            return false;
        }
    }

    private static String unique(int number) {
        return String.format("7F00000100002A139A3E0000000000%02X", number);
    }

    private static MessageQueue queue(List<MessageQueue> all, int id) {
        return all.stream().filter(one -> one.getQueueId() == id).findFirst().get();
    }

    private static DefaultMQPushConsumer consumer(String group, String topic, int count) throws Exception {
        CountDownLatch waited = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setInstanceName(group);
        consumer.setClientIP("127.0.0.1");
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);  // so that the offset of the last message is committed
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> waited.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!waited.await(WAIT_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("messages that " + group + " did not get: " + waited.getCount());
        }
        return consumer;
    }
}
