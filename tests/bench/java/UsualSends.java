import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends messages of each kind that applications send: `UsualSends NAMES KIND COUNT`.
 *
 * <p>The topic `usual` exists. "SENT count" says how many requests were sent.
 */
public final class UsualSends {
    private static final String TOPIC = "usual";
    private static final int BATCH = 32;
    private static final int DELAY_LEVEL = 18;

    private UsualSends() {
    }

    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[2]);
        DefaultMQProducer producer = producerOf(words[1]);
        producer.setNamesrvAddr(words[0]);
        producer.start();
        send(producer, words[1], count);
        System.out.println("SENT " + count);
        System.out.flush();
        Thread.sleep(500); // one-way requests may be under way still
        Runtime.getRuntime().halt(0);
    }

    private static DefaultMQProducer producerOf(String kind) {
        if (!kind.equals("transaction")) {
            return new DefaultMQProducer("usual-producer");
        }
        TransactionMQProducer made = new TransactionMQProducer("usual-transactions");
        made.setTransactionListener(new TransactionListener() {
            private int asked;

            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return ++asked % 4 == 0 ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return made;
    }

    private static void send(DefaultMQProducer producer, String kind, int count) throws Exception {
        CountDownLatch answered = new CountDownLatch(kind.equals("async") ? count : 0);
        for (int number = 0; number < count; number++) {
            switch (kind) {
                case "sync": producer.send(message(number)); break;
                case "async": producer.send(message(number), countingDown(answered)); break;
                case "oneway": producer.sendOneway(message(number)); break;
                case "compressed": producer.send(new Message(TOPIC, new byte[8192])); break;
                case "ordered": producer.send(message(number), (queues, one, key) -> queues.get((Integer) key % queues.size()), number); break;
                case "delayed": producer.send(delayed(number)); break;
                case "batch": producer.send(batch(number)); break;
                case "transaction": ((TransactionMQProducer) producer).sendMessageInTransaction(message(number), null); break;
                default: throw new IllegalArgumentException(kind);
            }
        }
        answered.await();
    }

    private static Message message(int number) {
        Message made = new Message(TOPIC, "tag" + number % 4, "key" + number, ("message " + number).getBytes(StandardCharsets.UTF_8));
        made.putUserProperty("number", String.valueOf(number));
        return made;
    }

    private static Message delayed(int number) {
        Message made = message(number);
        made.setDelayTimeLevel(DELAY_LEVEL);
        return made;
    }

    private static List<Message> batch(int number) {
        byte[] body = new byte[200];
        Arrays.fill(body, (byte) 'x');
        List<Message> made = new ArrayList<>();
        for (int one = 0; one < BATCH; one++) {
            made.add(new Message(TOPIC, "tag", "key" + number + "-" + one, body));
        }
        return made;
    }

    private static SendCallback countingDown(CountDownLatch answered) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                error.printStackTrace();
                answered.countDown();
            }
        };
    }
}
