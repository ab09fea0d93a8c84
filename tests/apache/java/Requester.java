import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** A producer that asks: Requester NAMES TOPIC COUNT MILLIS. It prints `reply BODY` for each reply. */
public class Requester {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("java-requesters");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        int code = 0;
        try {
            ask(producer, args);
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // whatever threads the client left
    }

    private static void ask(DefaultMQProducer producer, String[] args) throws Exception {
        for (int n = 0; n < Integer.parseInt(args[2]); n++) {
            Message question = new Message(args[1], ("question " + n).getBytes(StandardCharsets.UTF_8));
            Message reply = producer.request(question, Long.parseLong(args[3]));
            System.out.println("reply " + new String(reply.getBody(), StandardCharsets.UTF_8));
        }
    }
}
