import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.acl.plain.PlainAccessResource;
import org.apache.rocketmq.acl.plain.RemoteAddressStrategyFactory;

/** Patterns of addresses in RocketMQ 4: lines `pattern TAB address` on stdin; `true`, `false` or `refused` for each. */
public class AddressPatterns {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            System.out.println(matches(words[0], words[1]));
        }
    }

    private static String matches(String pattern, String address) {
        PlainAccessResource sender = new PlainAccessResource();
        sender.setWhiteRemoteAddress(address);
        try {
            return String.valueOf(new RemoteAddressStrategyFactory().getRemoteAddressStrategy(pattern).match(sender));
        } catch (RuntimeException error) {
            return "refused";
        }
    }
}
