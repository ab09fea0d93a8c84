import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A transactional producer whose broker is killed again and again; arguments and output are those of QuickStart.
 *
 * It sends until the file exists that the property `until` names, and goes on when a send fails. Then a consumer reads:
 * a message arrives if its transaction was committed, at once or when asked, and no other one does.
 */
public class TransactionKills {
    private static final String TOPIC = "TransactionKills";
    private static final int SENDERS = 4;
    private static final long WAIT_SECONDS = 120;

    /** The transactions that were executed: what was decided holds when the broker asks again. */
    private static final Set<Integer> EXECUTED = ConcurrentHashMap.newKeySet();
    private static final AtomicInteger BEGUN = new AtomicInteger();
    private static final AtomicInteger CHECKS = new AtomicInteger();
    private static volatile boolean ended;

    public static void main(String[] args) throws Exception {
        Path until = Path.of(System.getProperty("until"));
        TransactionMQProducer producer = producer(args[0]);
        Thread[] senders = new Thread[SENDERS];
        for (int i = 0; i < SENDERS; i++) {
            senders[i] = new Thread(() -> send(producer, until));
            senders[i].start();
        }
        for (Thread one : senders) {
            one.join();
        }
        ended = true;
        String found = consumed(args[0]);
        if (CHECKS.get() == 0) {
            found += " no transaction was asked about";
        }
        System.out.println(found.isEmpty() ? "ok kills" : "not ok kills " + found);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void send(TransactionMQProducer producer, Path until) {
        while (!Files.exists(until)) {
            int number = BEGUN.getAndIncrement();
            try {
                producer.sendMessageInTransaction(new Message(TOPIC, "TagA", "key" + number, bytes(number)), number);
            } catch (Exception error) {
                pause(50);  // the half message may be stored: its transaction is rolled back when asked
            }
        }
    }

    /** A third is rolled back. */
    private static LocalTransactionState decision(int number) {
        return number % 3 == 0 ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
    }

    private static class Decider implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            int number = (Integer) argument;
            EXECUTED.add(number);
            return number % 5 == 4 ? LocalTransactionState.UNKNOW : decision(number);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            CHECKS.incrementAndGet();
            int number = number(message);
            if (EXECUTED.contains(number)) {
                return decision(number);
            }
            return ended ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }
    }

    private static TransactionMQProducer producer(String names) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("producer_" + TOPIC);
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(10_000);
        producer.setHeartbeatBrokerInterval(500);  // a broker that starts again asks the producers that it knows
        producer.setTransactionListener(new Decider());
        producer.start();
        return producer;
    }

    /** Wait until all that was committed has arrived, and return what is wrong. */
    private static String consumed(String names) throws Exception {
        Set<Integer> expected = new TreeSet<>();
        for (int one : EXECUTED) {
            if (decision(one) == LocalTransactionState.COMMIT_MESSAGE) {
                expected.add(one);
            }
        }
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group_" + TOPIC);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> seen.add(number(one)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long end = System.currentTimeMillis() + WAIT_SECONDS * 1000;
        while (!seen.containsAll(expected) && System.currentTimeMillis() < end) {
            pause(20);
        }
        pause(1_000);
        Set<Integer> lost = new TreeSet<>(expected);
        lost.removeAll(seen);
        Set<Integer> phantom = new TreeSet<>(seen);
        phantom.removeAll(expected);
        return lost.isEmpty() && phantom.isEmpty() ? "" : "lost " + lost + ", not committed " + phantom;
    }

    private static byte[] bytes(int number) {
        return ("message " + number).getBytes(StandardCharsets.UTF_8);
    }

    private static int number(MessageExt message) {
        return Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8).substring(8));
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
