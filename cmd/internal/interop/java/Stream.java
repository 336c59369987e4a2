import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import org.apache.bookkeeper.client.api.WriteHandle;

/** Appends entries 0, 1, 2, ... with a window of calls in flight, until it is stopped or one fails. */
final class Stream extends Thread {
    private final WriteHandle handle;
    private final long seed;
    private final int size;
    private final int window;
    private final Semaphore free;
    private volatile boolean stopped;
    private long acked; // entries 0..acked-1 are confirmed
    private int code; // of the first failure
    private String error = "";

    Stream(WriteHandle handle, long seed, int size, int window) {
        this.handle = handle;
        this.seed = seed;
        this.size = size;
        this.window = window;
        this.free = new Semaphore(window);
        setDaemon(true);
    }

    @Override
    public void run() {
        for (long i = 0; !stopped; i++) {
            free.acquireUninterruptibly();
            long index = i;
            handle.appendAsync(Payload.make(seed, index, size)).whenComplete((id, failure) -> {
                done(index, id, failure);
                free.release();
            });
        }
        free.acquireUninterruptibly(window);
    }

    private synchronized void done(long index, Long id, Throwable failure) {
        if (failure == null && error.isEmpty() && id == index && acked == index) {
            acked++;
            return;
        }
        if (error.isEmpty()) {
            code = failure == null ? 0 : Driver.code(failure);
            error = failure == null ? "entry " + index + " got id " + id + " after " + acked + " in order" : Driver.cause(failure).toString();
        }
        stopped = true;
    }

    synchronized Map<String, Object> progress() {
        Map<String, Object> m = new TreeMap<>();
        m.put("acked", acked);
        m.put("code", code);
        m.put("error", error);
        return m;
    }

    /** Stops, waits for what is in flight, and tells how far it came. */
    Map<String, Object> finish() throws InterruptedException {
        stopped = true;
        join();
        return progress();
    }
}
