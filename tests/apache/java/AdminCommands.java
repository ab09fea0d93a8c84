import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin's commands in one JVM: one command on each line of the input, its arguments separated by tabs. For each, a
 * line with the text of both of its outputs in Base64.
 */
public class AdminCommands {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(text, true, "UTF-8");
            System.setOut(both);
            System.setErr(both);
            MQAdminStartup.main0(line.split("\t"), null);
            both.flush();
            answers.println(Base64.getEncoder().encodeToString(text.toByteArray()));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
