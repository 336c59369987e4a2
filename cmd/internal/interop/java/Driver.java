import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.bookkeeper.client.api.BKException;

/**
 * Apache's BookKeeper client under remote control: one JSON request a line on
 * stdin, {"id", "op", ...}; one JSON answer a line on stdout, {"id", "result"}
 * or {"id", "code", "error"} with the client's error code (0: not one of its
 * errors). Requests run beside each other. It ends with its stdin.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // stdout is for answers alone
        Commands commands = new Commands();
        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode request = JSON.readTree(line);
            pool.execute(() -> answer(commands, request, out));
        }
        System.exit(0);
    }

    private static void answer(Commands commands, JsonNode request, PrintStream out) {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("id", request.get("id").asLong());
        try {
            answer.set("result", JSON.valueToTree(commands.run(request)));
        } catch (Throwable t) {
            Throwable cause = cause(t);
            answer.put("code", code(cause));
            answer.put("error", cause.toString());
            if (!(cause instanceof BKException)) {
                cause.printStackTrace();
            }
        }
        synchronized (out) {
            out.println(answer);
            out.flush();
        }
    }

    static Throwable cause(Throwable t) {
        while ((t instanceof ExecutionException || t instanceof CompletionException) && t.getCause() != null) {
            t = t.getCause();
        }
        return t;
    }

    static int code(Throwable t) {
        Throwable cause = cause(t);
        return cause instanceof BKException ? ((BKException) cause).getCode() : 0;
    }
}
