import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Families that QuickStart lacks; arguments and output are the same. What RocketMQ 4 has not is called by reflection.
 */
public class FurtherFamilies {
    private static final long WAIT_SECONDS = 90;
    private static String names;

    public static void main(String[] args) throws Exception {
        names = args[0];
        for (int i = 1; i < args.length; i++) {
            try {
                run(args[i], "Further_" + args[i]);
                System.out.println("ok " + args[i]);
            } catch (Throwable error) {
                System.out.println("not ok " + args[i] + " " + error);
                error.printStackTrace();
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String name, String topic) throws Exception {
        switch (name) {
            case "timer": timer(topic); break;
            case "recall": recall(topic); break;
            case "request": request(topic); break;
            case "trace": trace(topic); break;
            case "assign": assign(topic); break;
            case "rebalance": rebalance(topic); break;
            case "leave": leave(HANDED_OVER); break;
            case "take": take(HANDED_OVER); break;
            default: throw new IllegalArgumentException(name);
        }
    }

    private static final String HANDED_OVER = "Further_handed_over";
    private static final int IN_30_SECONDS = 4;

    /** 20 messages are consumed, three of them are to come again in 30 s, three more are delayed as long, five wait. */
    private static void leave(String topic) throws Exception {
        send(topic, 0, 20);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = reader("group_" + topic, topic, (messages, context) -> {
            context.setDelayLevelWhenNextConsume(IN_30_SECONDS);
            boolean again = false;
            for (MessageExt one : messages) {
                seen.add(text(one));
                again |= text(one).matches("message 1[012]");
            }
            return again ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> seen.size() == 20, () -> seen + " arrived");
        Thread.sleep(2_000);  // the last ones are sent back and their offsets known
        consumer.shutdown();
        DefaultMQProducer producer = producer();
        for (int i = 20; i < 23; i++) {
            Message delayed = new Message(topic, body(i));
            delayed.setDelayTimeLevel(IN_30_SECONDS);
            producer.send(delayed);
        }
        producer.shutdown();
        send(topic, 23, 28);
    }

    /** What `leave` left comes at the broker that has the store now, and nothing that was consumed comes again. */
    private static void take(String topic) throws Exception {
        Set<String> expected = new TreeSet<>();
        for (int i = 20; i < 28; i++) {
            expected.add("message " + i);
        }
        for (int i = 10; i < 13; i++) {
            expected.add("message " + i);
        }
        List<String> seen = java.util.Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = reader("group_" + topic, topic, (messages, context) -> {
            messages.forEach(one -> seen.add(text(one)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> seen.containsAll(expected), () -> new TreeSet<>(seen) + " arrived");
        Thread.sleep(2_000);
        consumer.shutdown();
        check(new TreeSet<>(seen).equals(expected) && seen.size() == expected.size(), seen + " arrived");
    }

    private static DefaultMQProducer started(DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        return producer;
    }

    private static DefaultMQProducer producer() throws Exception {
        return started(new DefaultMQProducer("further-producer"));
    }

    private static void send(String topic, int from, int to) throws Exception {
        DefaultMQProducer producer = producer();
        for (int i = from; i < to; i++) {
            SendResult sent = producer.send(new Message(topic, "TagA", "key" + i, body(i)));
            check(sent.getSendStatus() == SendStatus.SEND_OK, sent.toString());
        }
        producer.shutdown();
    }

    private static DefaultMQPushConsumer reader(String group, String topic, MessageListenerConcurrently listener) throws Exception {
        return started(new DefaultMQPushConsumer(group), topic, listener);
    }

    private static DefaultMQPushConsumer started(DefaultMQPushConsumer consumer, String topic, MessageListenerConcurrently listener) throws Exception {
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private static byte[] body(int number) {
        return ("message " + number).getBytes(StandardCharsets.UTF_8);
    }

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    /** A message of RocketMQ 5 that is delivered at a time, not after one of the delay levels. */
    private static void timer(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        Message after = new Message(topic, body(1));
        Message.class.getMethod("setDelayTimeMs", long.class).invoke(after, 2_500L);
        Message at = new Message(topic, body(2));
        long begin = System.currentTimeMillis();
        Message.class.getMethod("setDeliverTimeMs", long.class).invoke(at, begin + 3_500L);
        producer.send(after);
        producer.send(at);
        Map<String, Long> found = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = reader("group_" + topic, topic, (messages, context) -> {
            messages.forEach(one -> found.putIfAbsent(text(one), System.currentTimeMillis()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> found.size() == 2, () -> found + " arrived");
        check(found.get("message 1") - begin >= 1_500, "the first arrived after " + (found.get("message 1") - begin) + " ms");
        check(found.get("message 2") - begin >= 2_500, "the second arrived after " + (found.get("message 2") - begin) + " ms");
        consumer.shutdown();
        producer.shutdown();
    }

    /** A timer message that is recalled does not arrive; one that was sent with it, and is due later, does. */
    private static void recall(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        Message first = new Message(topic, body(1));
        Message second = new Message(topic, body(2));
        long due = System.currentTimeMillis() + 6_000;
        Message.class.getMethod("setDeliverTimeMs", long.class).invoke(first, due);
        Message.class.getMethod("setDeliverTimeMs", long.class).invoke(second, due + 2_000);
        SendResult sent = producer.send(first);
        producer.send(second);
        String handle = (String) SendResult.class.getMethod("getRecallHandle").invoke(sent);
        Object id = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, topic, handle);
        check(sent.getMsgId().equals(id), sent.getMsgId() + " was sent and " + id + " recalled");
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = reader("group_" + topic, topic, (messages, context) -> {
            messages.forEach(one -> seen.add(text(one)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> seen.contains("message 2"), () -> seen + " arrived");
        check(!seen.contains("message 1"), "a recalled message arrived");
        String plain = "v1 " + topic + " another-broker " + (due + 60_000) + " 7F00000100002A139A5500000000";
        String foreign = Base64.getUrlEncoder().encodeToString(plain.getBytes(StandardCharsets.UTF_8));
        try {
            DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, topic, foreign);
            check(false, "a message of another broker was recalled");
        } catch (java.lang.reflect.InvocationTargetException error) {
            check(error.getCause() != null, "refused");
        }
        consumer.shutdown();
        producer.shutdown();
    }

    private static void request(String topic) throws Exception {
        send(topic, 0, 1);
        DefaultMQProducer replying = started(new DefaultMQProducer("replying"));
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = reader("group_" + topic, topic, (messages, context) -> {
            for (MessageExt one : messages) {
                seen.add(text(one));
                if (one.getProperty("CORRELATION_ID") != null) {
                    try {
                        byte[] body = ("reply to " + text(one)).getBytes(StandardCharsets.UTF_8);
                        replying.send(MessageUtil.createReplyMessage(one, body));
                    } catch (Exception error) {
                        error.printStackTrace();
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> seen.size() == 1, () -> seen + " arrived");
        DefaultMQProducer asking = producer();
        for (int i = 0; i < 3; i++) {
            Message answer = asking.request(new Message(topic, ("question " + i).getBytes(StandardCharsets.UTF_8)), 30_000);
            String found = new String(answer.getBody(), StandardCharsets.UTF_8);
            check(found.equals("reply to question " + i), found);
        }
        asking.shutdown();
        consumer.shutdown();
        replying.shutdown();
    }

    /** What was sent and consumed stands in RMQ_SYS_TRACE_TOPIC. */
    private static void trace(String topic) throws Exception {
        DefaultMQProducer producer = started(new DefaultMQProducer("traced", null, true, null));
        String id = producer.send(new Message(topic, "TagA", "key", body(0))).getMsgId();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = started(new DefaultMQPushConsumer("group_" + topic, null, new AllocateMessageQueueAveragely(), true, null), topic, (messages, context) -> {
            messages.forEach(one -> seen.add(one.getMsgId()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> seen.contains(id), () -> "it did not arrive");
        Set<String> kinds = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer traces = reader("traces_" + topic, "RMQ_SYS_TRACE_TOPIC", (messages, context) -> {
            for (MessageExt one : messages) {
                for (String record : text(one).split("\u0002")) {
                    if (record.contains(id)) {
                        kinds.add(record.split("\u0001")[0]);
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        await(() -> kinds.contains("Pub") && kinds.contains("SubBefore") && kinds.contains("SubAfter"), () -> kinds + " were traced");
        traces.shutdown();
        consumer.shutdown();
        producer.shutdown();
    }

    /** A pull consumer that takes all queues itself and begins at a time. */
    private static void assign(String topic) throws Exception {
        send(topic, 0, 10);
        Thread.sleep(1_000);
        long middle = System.currentTimeMillis();
        Thread.sleep(1_000);
        send(topic, 10, 20);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("assign_" + topic);
        consumer.setNamesrvAddr(names);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        consumer.assign(queues);
        for (MessageQueue queue : queues) {
            consumer.seek(queue, consumer.offsetForTimestamp(queue, middle));
        }
        Set<String> found = new TreeSet<>();
        await(() -> poll(consumer, found) >= 10, () -> found + " arrived");
        for (int i = 0; i < 5; i++) {
            poll(consumer, found);
        }
        Set<String> wanted = new TreeSet<>();
        for (int i = 10; i < 20; i++) {
            wanted.add("message " + i);
        }
        check(found.equals(wanted), found.toString());
        consumer.shutdown();
    }

    private static int poll(DefaultLitePullConsumer consumer, Set<String> found) {
        consumer.poll(200).forEach(one -> found.add(text(one)));
        return found.size();
    }

    /** Two consumers of a group share the queues; after one has left, the other reads all. */
    private static void rebalance(String topic) throws Exception {
        send(topic, 0, 20);
        List<Member> members = new ArrayList<>();
        for (String name : new String[] {"one", "two"}) {
            members.add(new Member(topic, name));
        }
        Member one = members.get(0), two = members.get(1);
        int queues = producerQueues(topic);
        await(() -> one.owned() + two.owned() == queues && one.owned() > 0 && two.owned() > 0, () -> "queues: " + one.owned() + " and " + two.owned() + " of " + queues);
        Thread.sleep(2_000);
        one.clear();
        two.clear();
        send(topic, 20, 60);
        await(() -> one.bodies.size() + two.bodies.size() >= 40, () -> one.bodies.size() + " and " + two.bodies.size() + " of 40 arrived");
        Set<Integer> both = new HashSet<>(one.queues);
        both.retainAll(two.queues);
        check(both.isEmpty(), "both read the queues " + both);
        check(one.bodies.size() + two.bodies.size() == 40, one.bodies.size() + " and " + two.bodies.size());
        two.consumer.shutdown();
        await(() -> one.owned() == queues, () -> one.owned() + " of " + queues + " queues after the other had left");
        one.clear();
        send(topic, 60, 100);
        await(() -> one.bodies.size() >= 40, () -> one.bodies.size() + " of 40 arrived after the other had left");
        check(one.bodies.stream().noneMatch(body -> Integer.parseInt(body.split(" ")[1]) < 60), "some were read twice: " + one.bodies);
        one.consumer.shutdown();
    }

    private static int producerQueues(String topic) throws Exception {
        DefaultMQProducer producer = producer();
        int count = producer.fetchPublishMessageQueues(topic).size();
        producer.shutdown();
        return count;
    }

    private static class Member {
        final Set<String> bodies = ConcurrentHashMap.newKeySet();
        final Set<Integer> queues = ConcurrentHashMap.newKeySet();
        final DefaultMQPushConsumer consumer;
        final String topic;

        Member(String topic, String name) throws Exception {
            this.topic = topic;
            consumer = new DefaultMQPushConsumer("group_" + topic);
            consumer.setInstanceName(name);
            FurtherFamilies.started(consumer, topic, (messages, context) -> {
                messages.forEach(message -> {
                    bodies.add(text(message));
                    queues.add(message.getQueueId());
                });
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }

        int owned() {
            return (int) consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(queue -> queue.getTopic().equals(topic)).count();
        }

        void clear() {
            bodies.clear();
            queues.clear();
        }
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
