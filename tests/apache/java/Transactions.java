import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Families of transactional producers; arguments and output are those of QuickStart. The broker has to check undecided
 * messages every second or so.
 */
public class Transactions {
    private static final long WAIT_SECONDS = 90;
    private static final String HANDED_OVER = "Transactions_handed_over";
    private static String names;

    public static void main(String[] args) throws Exception {
        names = args[0];
        for (int i = 1; i < args.length; i++) {
            try {
                run(args[i], "Transactions_" + args[i]);
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
            case "commit": commit(topic); break;
            case "check": check(topic); break;
            case "leave": leave(); break;
            case "take": take(); break;
            default: throw new IllegalArgumentException(name);
        }
    }

    /** Transactions that end at once: consumers see those with even numbers. */
    private static void commit(String topic) throws Exception {
        Decider decider = new Decider(Transactions::evenly, number -> LocalTransactionState.UNKNOW);
        TransactionMQProducer producer = producer(topic, decider);
        send(producer, topic, 0, 20);
        Set<String> seen = consumed(topic, 0, 20, 2);
        check(seen.size() == 10, seen + " arrived");
        producer.shutdown();
        check(decider.checks.get() == 0, decider.checks + " checks of transactions that ended");
    }

    /** Transactions that the broker has to ask about, the third time with an answer. */
    private static void check(String topic) throws Exception {
        Set<String> asked = ConcurrentHashMap.newKeySet();
        AtomicInteger firstAnswers = new AtomicInteger();
        Decider decider = new Decider(number -> LocalTransactionState.UNKNOW, number -> {
            asked.add(text(number));
            return firstAnswers.incrementAndGet() <= 10 ? LocalTransactionState.UNKNOW : evenly(number);
        });
        TransactionMQProducer producer = producer(topic, decider);
        send(producer, topic, 0, 10);
        Set<String> seen = consumed(topic, 0, 10, 2);
        check(seen.size() == 5, seen + " arrived");
        check(asked.size() == 10, asked + " were asked about");
        producer.shutdown();
    }

    /** Ten transactions end, ten stay undecided: they are asked about, and the producer does not know yet. */
    private static void leave() throws Exception {
        AtomicInteger asked = new AtomicInteger();
        Decider decider = new Decider(number -> number < 10 ? evenly(number) : LocalTransactionState.UNKNOW, number -> {
            asked.incrementAndGet();
            return LocalTransactionState.UNKNOW;
        });
        TransactionMQProducer producer = producer(HANDED_OVER, decider);
        send(producer, HANDED_OVER, 0, 20);
        await(() -> asked.get() >= 10, () -> asked + " were asked about");
        Thread.sleep(4_000);  // RocketMQ's broker writes the marks of ended transactions every three seconds
        producer.shutdown();
    }

    /** The broker that has the store now asks about what `leave` left undecided, and takes new transactions. */
    private static void take() throws Exception {
        Set<Integer> asked = ConcurrentHashMap.newKeySet();
        Decider decider = new Decider(Transactions::evenly, number -> {
            asked.add(number);
            return evenly(number);
        });
        TransactionMQProducer producer = producer(HANDED_OVER, decider);
        send(producer, HANDED_OVER, 20, 30);
        Set<String> seen = consumed(HANDED_OVER, 0, 30, 3);
        check(seen.size() == 15, seen + " arrived");
        check(asked.equals(numbers(10, 20)), asked + " were asked about");
        producer.shutdown();
    }

    private static Set<Integer> numbers(int from, int to) {
        Set<Integer> found = new TreeSet<>();
        for (int i = from; i < to; i++) {
            found.add(i);
        }
        return found;
    }

    private static LocalTransactionState evenly(int number) {
        return number % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
    }

    /** Decides transactions by the number in the message. */
    private static class Decider implements TransactionListener {
        private final IntFunction<LocalTransactionState> first;
        private final IntFunction<LocalTransactionState> later;
        private final AtomicInteger checks = new AtomicInteger();

        Decider(IntFunction<LocalTransactionState> first, IntFunction<LocalTransactionState> later) {
            this.first = first;
            this.later = later;
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return first.apply((Integer) argument);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            checks.incrementAndGet();
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            boolean whole = message.getTopic().startsWith("Transactions_") && ("key" + body.substring(8)).equals(message.getKeys())
                && message.getTransactionId().equals(message.getProperty("UNIQ_KEY"));
            return whole ? later.apply(Integer.parseInt(body.substring(8))) : LocalTransactionState.ROLLBACK_MESSAGE;
        }
    }

    private static TransactionMQProducer producer(String topic, Decider decider) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("producer_" + topic);
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(20_000);
        producer.setTransactionListener(decider);
        producer.start();
        return producer;
    }

    private static void send(TransactionMQProducer producer, String topic, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            Message message = new Message(topic, "TagA", "key" + i, text(i).getBytes(StandardCharsets.UTF_8));
            TransactionSendResult sent = producer.sendMessageInTransaction(message, i);
            check(sent.getSendStatus() == SendStatus.SEND_OK, sent.toString());
            String id = sent.getTransactionId();
            boolean none = id == null && MQVersion.CURRENT_VERSION < MQVersion.Version.V5_0_0.ordinal();
            check(none || id.equals(message.getProperty("UNIQ_KEY")), sent.toString()); // RocketMQ 4's broker gives none
        }
    }

    /** Wait for all even numbers of a range and some seconds more, and return what arrived; an odd number is an error. */
    private static Set<String> consumed(String topic, int from, int to, int more) throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group_" + topic);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> seen.add(new String(one.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Collection<String> expected = new TreeSet<>();
        for (int i = from; i < to; i += 2) {
            expected.add(text(i));
        }
        await(() -> seen.containsAll(expected), () -> new TreeSet<>(seen) + " arrived");
        Thread.sleep(more * 1_000L);
        consumer.shutdown();
        check(expected.containsAll(seen), new TreeSet<>(seen) + " arrived");
        return seen;
    }

    private static String text(int number) {
        return "message " + number;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    interface Text {
        String get();
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void await(Condition condition, Text what) throws Exception {
        long end = System.currentTimeMillis() + WAIT_SECONDS * 1000;
        while (!condition.holds()) {
            check(System.currentTimeMillis() < end, what.get());
            Thread.sleep(20);
        }
    }
}
