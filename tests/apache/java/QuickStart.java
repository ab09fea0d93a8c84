import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/**
 * Families of Apache's clients against the name server args[0]; args[1..] name families. One line for each: `ok NAME` or
 * `not ok NAME why`. In the source of RocketMQ 5, MessageModel lies in another package: the test changes the import.
 */
public class QuickStart {
    private static final long WAIT_SECONDS = 60;
    private static String names;

    interface Family {
        void run(String topic) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        names = args[0];
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000"); // retry topics are found sooner
        List<Thread> running = new ArrayList<>();
        for (int i = 1; i < args.length; i++) {
            String name = args[i];
            running.add(new Thread(() -> report(name)));
        }
        running.forEach(Thread::start); // side by side: the end of each client takes seconds
        for (Thread one : running) {
            one.join();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void report(String name) {
        String line = "ok " + name;
        try {
            family(name).run("Quick_" + name);
        } catch (Throwable error) {
            line = "not ok " + name + " " + error;
            error.printStackTrace();
        }
        System.out.println(line);
        System.out.flush();
    }

    private static Family family(String name) {
        switch (name) {
            case "sync": return QuickStart::sync;
            case "async": return QuickStart::async;
            case "oneway": return QuickStart::oneWay;
            case "batch": return QuickStart::batch;
            case "selector": return QuickStart::selector;
            case "delay": return QuickStart::delay;
            case "push": return topic -> push(topic, false, "*", 40);
            case "tags": return topic -> push(topic, false, "TagA || TagC", 20);
            case "broadcasting": return topic -> push(topic, true, "*", 40);
            case "orderly": return QuickStart::orderly;
            case "sql": return QuickStart::sql;
            case "retry": return QuickStart::retry;
            case "dlq": return QuickStart::deadLetters;
            case "lite": return QuickStart::lite;
            case "query": return QuickStart::query;
            default: throw new IllegalArgumentException(name);
        }
    }

    private static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("quick-producer");
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        return producer;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    private static byte[] body(int number) {
        return ("message " + number).getBytes(StandardCharsets.UTF_8);
    }

    private static void sync(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 20; i++) {
            SendResult sent = producer.send(new Message(topic, "TagA", "key" + i, body(i)));
            check(sent.getSendStatus() == SendStatus.SEND_OK, sent.toString());
        }
        SendResult large = producer.send(new Message(topic, new byte[1 << 20]));
        check(large.getSendStatus() == SendStatus.SEND_OK, large.toString());
        producer.shutdown();
    }

    private static void async(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        CountDownLatch done = new CountDownLatch(100);
        AtomicInteger failed = new AtomicInteger();
        for (int i = 0; i < 100; i++) {
            producer.send(new Message(topic, body(i)), new SendCallback() {
                public void onSuccess(SendResult sent) {
                    done.countDown();
                }

                public void onException(Throwable error) {
                    failed.incrementAndGet();
                    done.countDown();
                }
            });
        }
        check(done.await(WAIT_SECONDS, TimeUnit.SECONDS), "not all were answered");
        check(failed.get() == 0, failed + " failed");
        producer.shutdown();
    }

    private static void oneWay(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(new Message(topic, body(0)));
        for (int i = 1; i < 10; i++) {
            producer.sendOneway(new Message(topic, body(i)));
        }
        check(read(topic, 10).size() == 10, "some are missing");
        producer.shutdown();
    }

    private static void batch(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 32; i++) {
            messages.add(new Message(topic, "TagA", "key" + i, body(i)));
        }
        SendResult sent = producer.send(messages);
        check(sent.getSendStatus() == SendStatus.SEND_OK, sent.toString());
        check(sent.getOffsetMsgId().split(",").length == 32, sent.toString());
        check(read(topic, 32).size() == 32, "some are missing");
        producer.shutdown();
    }

    private static void selector(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        int queue = -1;
        for (int i = 0; i < 10; i++) {
            SendResult sent = producer.send(new Message(topic, body(i)), (queues, message, arg) -> queues.get((Integer) arg % queues.size()), 2);
            check(queue == -1 || queue == sent.getMessageQueue().getQueueId(), sent.toString());
            queue = sent.getMessageQueue().getQueueId();
            check(sent.getQueueOffset() == i, sent.toString());
        }
        producer.shutdown();
    }

    private static void delay(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        Message message = new Message(topic, body(0));
        message.setDelayTimeLevel(1);
        long begin = System.currentTimeMillis();
        producer.send(message);
        check(read(topic, 1).size() == 1, "it did not arrive");
        check(System.currentTimeMillis() - begin >= 1000, "it arrived too early");
        producer.shutdown();
    }

    private static void send(String topic, int count) throws Exception {
        DefaultMQProducer producer = producer();
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, "Tag" + "ABCD".charAt(i % 4), "key" + i, body(i));
            message.putUserProperty("a", "" + i);
            producer.send(message);
        }
        producer.shutdown();
    }

    private static DefaultMQPushConsumer consumer(String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group_" + topic);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1_000);
        return consumer;
    }

    private static Set<String> read(String topic, int count) throws Exception {
        Set<String> found = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> found.add(new String(one.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(() -> found.size() >= count, () -> found.size() + " of " + count + " arrived");
        consumer.shutdown();
        return found;
    }

    private static void push(String topic, boolean broadcasting, String tags, int count) throws Exception {
        send(topic, 20);
        Set<String> found = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.subscribe(topic, tags);
        if (broadcasting) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> found.add(one.getMsgId()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(() -> found.size() >= count / 2, () -> found.size() + " of " + count / 2 + " arrived");
        send(topic, 20);
        await(() -> found.size() >= count, () -> found.size() + " of " + count + " arrived");
        Thread.sleep(500);
        check(found.size() == count, found.size() + " instead of " + count);
        consumer.shutdown();
    }

    private static void orderly(String topic) throws Exception {
        send(topic, 20);
        List<MessageExt> found = Collections.synchronizedList(new ArrayList<>());
        AtomicInteger refused = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (refused.getAndIncrement() == 0) {
                context.setSuspendCurrentQueueTimeMillis(100);
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            found.addAll(messages);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        await(() -> found.size() >= 20, () -> found.size() + " of 20 arrived");
        long[] next = new long[64];
        for (MessageExt one : found) {
            check(one.getQueueOffset() == next[one.getQueueId()]++, "out of order: " + one);
        }
        consumer.shutdown();
    }

    private static void sql(String topic) throws Exception {
        send(topic, 20);
        Set<String> found = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.subscribe(topic, MessageSelector.bySql("a BETWEEN 5 AND 9 OR TAGS = 'TagA'"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> found.add(one.getUserProperty("a")));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(() -> found.size() >= 9, () -> found + " arrived");
        Thread.sleep(500);
        check(new TreeSet<>(found).toString().equals("[0, 12, 16, 4, 5, 6, 7, 8, 9]"), found.toString());
        consumer.shutdown();
    }

    private static void retry(String topic) throws Exception {
        send(topic, 2);
        Set<String> found = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                if (one.getReconsumeTimes() == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                check(one.getTopic().equals(topic), one.toString());
                found.add(one.getMsgId());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(() -> found.size() >= 2, () -> found.size() + " of 2 came back");
        consumer.shutdown();
    }

    private static void deadLetters(String topic) throws Exception {
        send(topic, 2);
        DefaultMQPushConsumer consumer = consumer(topic);
        consumer.setMaxReconsumeTimes(0);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.RECONSUME_LATER);
        consumer.start();
        DefaultMQPushConsumer dead = new DefaultMQPushConsumer("dead_" + topic);
        dead.setNamesrvAddr(names);
        dead.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        Set<String> found = ConcurrentHashMap.newKeySet();
        dead.subscribe("%DLQ%group_" + topic, "*");
        dead.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> found.add(one.getMsgId()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Thread.sleep(2000);
        dead.start();
        await(() -> found.size() >= 2, () -> found.size() + " of 2 dead letters arrived");
        consumer.shutdown();
        dead.shutdown();
    }

    private static void lite(String topic) throws Exception {
        send(topic, 20);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("lite_" + topic);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        Set<String> found = new TreeSet<>();
        await(() -> poll(consumer, found) >= 20, () -> found.size() + " of 20 arrived");
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        for (MessageQueue queue : queues) {
            consumer.seekToBegin(queue);
        }
        found.clear();
        await(() -> poll(consumer, found) >= 20, () -> found.size() + " of 20 arrived again");
        consumer.commitSync();
        consumer.shutdown();
    }

    private static int poll(DefaultLitePullConsumer consumer, Set<String> found) {
        consumer.poll(200).forEach(one -> found.add(one.getMsgId()));
        return found.size();
    }

    private static void query(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        SendResult sent = producer.send(new Message(topic, "TagA", "the-key", body(1)));
        MessageQueue queue = sent.getMessageQueue();
        await(() -> producer.maxOffset(queue) == 1, () -> "no offset"); // Apache's broker dispatches it after its answer
        check(producer.minOffset(queue) == 0, "first offset");
        check(producer.searchOffset(queue, 0) == 0, "offset by time");
        check(producer.earliestMsgStoreTime(queue) > 0, "earliest store time");
        await(() -> {
            try {
                return producer.queryMessage(topic, "the-key", 8, 0, Long.MAX_VALUE).getMessageList().size() == 1;
            } catch (Exception error) {
                return false;
            }
        }, () -> "not found by key");
        check(new String(producer.viewMessage(topic, sent.getOffsetMsgId()).getBody(), StandardCharsets.UTF_8).equals("message 1"), "by offset id");
        check(producer.viewMessage(topic, sent.getMsgId()).getKeys().equals("the-key"), "by unique key");
        producer.shutdown();
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    interface Text {
        String get();
    }

    private static void await(Condition condition, Text what) throws Exception {
        long end = System.currentTimeMillis() + WAIT_SECONDS * 1000;
        while (!condition.holds()) {
            check(System.currentTimeMillis() < end, what.get());
            Thread.sleep(20);
        }
    }
}
