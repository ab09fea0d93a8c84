import com.google.common.collect.ImmutableMap;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.TopicAttributes;
import org.apache.rocketmq.common.attribute.AttributeParser;
import org.apache.rocketmq.common.attribute.AttributeUtil;

/**
 * Changes of a topic's attributes in RocketMQ 5: lines `true or false for a new topic TAB attributes name=value; TAB
 * changes` on stdin; for each a line `ANSWER TAB attributes afterwards`, sorted, or `refused`
 * for them. Logs are printed as well.
 */
public class Attributes {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            System.out.println("ANSWER\t" + changed(Boolean.parseBoolean(words[0]), words[1], words[2]));
        }
    }

    private static String changed(boolean isNew, String attributes, String changes) {
        ImmutableMap.Builder<String, String> known = ImmutableMap.builder();
        for (String one : attributes.split(";")) {
            if (!one.isEmpty()) {
                known.put(one.substring(0, one.indexOf('=')), one.substring(one.indexOf('=') + 1));
            }
        }
        try {
            Map<String, String> wanted = AttributeParser.parseToMap(changes);
            Map<String, String> found = AttributeUtil.alterCurrentAttributes(
                isNew, TopicAttributes.ALL, known.build(), ImmutableMap.copyOf(wanted));
            StringBuilder text = new StringBuilder();
            new TreeMap<>(found).forEach((name, value) -> text.append(name).append('=').append(value).append(';'));
            return text.toString();
        } catch (RuntimeException error) {
            return "refused";
        }
    }
}
