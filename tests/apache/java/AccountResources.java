import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.auth.authorization.model.Resource;

/** Resources of policies in RocketMQ 5: lines `resource TAB other` on stdin; `refused`, or the resource and whether it has the other. */
public class AccountResources {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            Resource one = Resource.of(words[0]);
            System.out.println("= " + (one == null ? "refused" : one.getResourceKey() + "\t" + one.isMatch(Resource.ofTopic(words[1]))));
        }
    }
}
