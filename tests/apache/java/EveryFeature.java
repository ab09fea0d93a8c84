import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends one message, or one batch, by each feature of RocketMQ 5's producer, and ends when its input does. Arguments are
 * the NameServer and a topic.
 */
public class EveryFeature {
    private static String names;
    private static String topic;

    public static void main(String[] args) throws Exception {
        names = args[0];
        topic = args[1];
        DefaultMQProducer producer = new DefaultMQProducer("java-features");
        start(producer);
        Message whole = message("whole");
        whole.setTags("red");
        whole.setKeys("k1 k2");
        whole.setFlag(7);
        whole.putUserProperty("colour", "\u65e5\u672c");
        check(producer.send(whole));
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Message one = message("batch" + i);
            one.setTags("b" + i);
            one.putUserProperty("number", Integer.toString(i));
            batch.add(one);
        }
        check(producer.send(batch));
        producer.sendOneway(message("one-way"));
        Message delayed = message("delayed");
        delayed.setDelayTimeLevel(1);
        check(producer.send(delayed));
        Message timed = message("timed");
        timed.setDelayTimeMs(1500);
        check(producer.send(timed));
        Message sharded = message("sharded");
        MessageAccessor.putProperty(sharded, MessageConst.PROPERTY_SHARDING_KEY, "shard-1");
        check(producer.send(sharded, new SelectMessageQueueByHash(), "shard-1"));
        for (CompressionType type : CompressionType.values()) {
            producer.setCompressType(type);
            check(producer.send(message(type + " " + "x".repeat(9000))));
        }
        transactions();
        System.out.println("sent");
        System.out.flush();
        System.in.read(); // the ends of transactions are one-way: they are under way still
        Runtime.getRuntime().halt(0);
    }

    private static void transactions() throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("java-transactions");
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return (LocalTransactionState) state;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        start(producer);
        Message committed = message("committed");
        committed.setKeys("t1");
        check(producer.sendMessageInTransaction(message("rolled back"), LocalTransactionState.ROLLBACK_MESSAGE));
        check(producer.sendMessageInTransaction(committed, LocalTransactionState.COMMIT_MESSAGE));
    }

    private static void start(DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(20_000);
        producer.start();
    }

    private static Message message(String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    private static void check(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
    }
}
