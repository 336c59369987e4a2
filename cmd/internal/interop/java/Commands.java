import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerChecker;
import org.apache.bookkeeper.client.LedgerFragment;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.CreateBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteAdvHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/** What the tests can ask Apache's client to do. Clients and ledger handles are kept by number. */
final class Commands {
    private final Map<Long, BookKeeper> clients = new ConcurrentHashMap<>();
    private final Map<Long, ReadHandle> handles = new ConcurrentHashMap<>();
    private final Map<Long, Stream> streams = new ConcurrentHashMap<>();
    private final AtomicLong next = new AtomicLong();

    Object run(JsonNode r) throws Exception {
        switch (r.get("op").asText()) {
            case "client": return client(r);
            case "closeClient": clients.remove(r.get("client").asLong()).close(); return true;
            case "create": return create(r);
            case "open": return open(r);
            case "append": return append(r);
            case "write": return write(r);
            case "stream": return stream(r);
            case "progress": return streams.get(r.get("handle").asLong()).progress();
            case "stop": return streams.get(r.get("handle").asLong()).finish();
            case "read": return read(r);
            case "readLAC": return handle(r).readLastAddConfirmed();
            case "poll": return poll(r);
            case "force": ((WriteHandle) handle(r)).force().get(); return true;
            case "state": return state(handle(r));
            case "close": handles.remove(r.get("handle").asLong()).close(); return true;
            case "delete": bk(r).newDeleteLedgerOp().withLedgerId(r.get("ledger").asLong()).execute().get(); return true;
            case "metadata": return metadata(bk(r).getLedgerMetadata(r.get("ledger").asLong()).get());
            case "ledgers": return ledgers(r);
            case "bookieInfo": return bookieInfo(r);
            case "entries": return entries(r);
            case "check": return check(r);
            default: throw new IllegalArgumentException("no such command: " + r.get("op"));
        }
    }

    private BookKeeper bk(JsonNode r) { return clients.get(r.get("client").asLong()); }

    private ReadHandle handle(JsonNode r) { return handles.get(r.get("handle").asLong()); }

    private static boolean is(JsonNode r, String field) { return r.has(field) && r.get(field).asBoolean(); }

    private static byte[] password(JsonNode r) { return r.get("password").asText().getBytes(StandardCharsets.UTF_8); }

    private long client(JsonNode r) throws Exception {
        ClientConfiguration c = new ClientConfiguration();
        c.setMetadataServiceUri(r.get("uri").asText());
        c.setUseV2WireProtocol(is(r, "v2"));
        c.setBatchReadEnabled(true);
        c.setThrottleValue(0);
        c.setZkTimeout(20_000);
        // a busy machine is no fault
        c.setAddEntryTimeout(30);
        c.setReadEntryTimeout(30);
        c.setNumIOThreads(2);
        c.setNumWorkerThreads(2);
        c.setExplictLacInterval(r.has("explicitLAC") ? r.get("explicitLAC").asInt() : 0);
        if (r.has("frameMax")) {
            c.setNettyMaxFrameSizeBytes(r.get("frameMax").asInt());
        }
        long id = next.incrementAndGet();
        clients.put(id, new BookKeeper(c));
        return id;
    }

    private Object create(JsonNode r) throws Exception {
        CreateBuilder b = bk(r).newCreateLedgerOp()
            .withEnsembleSize(r.get("ensemble").asInt()).withWriteQuorumSize(r.get("write").asInt()).withAckQuorumSize(r.get("ack").asInt())
            .withDigestType(DigestType.valueOf(r.get("digest").asText())).withPassword(password(r));
        if (is(r, "deferred")) {
            b = b.withWriteFlags(WriteFlag.DEFERRED_SYNC);
        }
        if (r.has("custom")) {
            Map<String, byte[]> custom = new TreeMap<>();
            r.get("custom").fields().forEachRemaining(f -> custom.put(f.getKey(), f.getValue().asText().getBytes(StandardCharsets.UTF_8)));
            b = b.withCustomMetadata(custom);
        }
        ReadHandle h;
        if (r.has("ledger")) {
            h = b.makeAdv().withLedgerId(r.get("ledger").asLong()).execute().get();
        } else if (is(r, "advanced")) {
            h = b.makeAdv().execute().get();
        } else {
            h = b.execute().get();
        }
        return opened(h);
    }

    private Object open(JsonNode r) throws Exception {
        return opened(bk(r).newOpenLedgerOp().withLedgerId(r.get("ledger").asLong()).withRecovery(is(r, "recover"))
            .withDigestType(DigestType.valueOf(r.get("digest").asText())).withPassword(password(r)).execute().get());
    }

    private Object opened(ReadHandle h) {
        long id = next.incrementAndGet();
        handles.put(id, h);
        Map<String, Object> m = state(h);
        m.put("handle", id);
        return m;
    }

    private static Map<String, Object> state(ReadHandle h) {
        Map<String, Object> m = new TreeMap<>();
        m.put("ledger", h.getId());
        m.put("lac", h.getLastAddConfirmed());
        m.put("closed", h.isClosed());
        m.put("length", h.getLength());
        return m;
    }

    /** Pipelined appends, one of each size, from index on. Answers the ids, in the order of the calls. */
    private Object append(JsonNode r) throws Exception {
        WriteHandle h = (WriteHandle) handle(r);
        long index = r.get("index").asLong();
        List<CompletableFuture<Long>> pending = new ArrayList<>();
        for (JsonNode size : r.get("sizes")) {
            pending.add(h.appendAsync(Payload.make(r.get("seed").asLong(), index++, size.asInt())));
        }
        List<Long> ids = new ArrayList<>();
        for (CompletableFuture<Long> f : pending) {
            ids.add(f.get());
        }
        return ids;
    }

    /** Entries under ids that the caller chooses, all at once, in the order given; payload index = id. */
    private Object write(JsonNode r) throws Exception {
        WriteAdvHandle h = (WriteAdvHandle) handle(r);
        List<CompletableFuture<Long>> pending = new ArrayList<>();
        for (JsonNode id : r.get("ids")) {
            pending.add(h.writeAsync(id.asLong(), Payload.make(r.get("seed").asLong(), id.asLong(), r.get("size").asInt())));
        }
        List<Long> ids = new ArrayList<>();
        for (CompletableFuture<Long> f : pending) {
            ids.add(f.get());
        }
        return ids;
    }

    /** Appends on and on, until stopped or failed; see Stream. */
    private Object stream(JsonNode r) {
        Stream s = new Stream((WriteHandle) handle(r), r.get("seed").asLong(), r.get("size").asInt(), r.get("window").asInt());
        streams.put(r.get("handle").asLong(), s);
        s.start();
        return true;
    }

    private Object read(JsonNode r) throws Exception {
        ReadHandle h = handle(r);
        long first = r.get("first").asLong(), last = r.get("last").asLong();
        List<Object> out = new ArrayList<>();
        if (!is(r, "batch")) {
            try (LedgerEntries es = (is(r, "unconfirmed") ? h.readUnconfirmedAsync(first, last) : h.readAsync(first, last)).get()) {
                es.forEach(e -> out.add(entry(e)));
            }
            return out;
        }
        while (first <= last) {
            try (LedgerEntries es = h.batchReadAsync(first, (int) (last - first + 1), r.get("maxBytes").asLong()).get()) {
                for (LedgerEntry e : es) {
                    out.add(entry(e));
                    first = e.getEntryId() + 1;
                }
            }
        }
        return out;
    }

    private static Map<String, Object> entry(LedgerEntry e) {
        try {
            byte[] payload = e.getEntryBytes();
            Map<String, Object> m = new TreeMap<>();
            m.put("id", e.getEntryId());
            m.put("size", payload.length);
            m.put("sum", Payload.sum(payload));
            return m;
        } catch (Exception x) {
            throw new IllegalStateException(x);
        }
    }

    private Object poll(JsonNode r) throws Exception {
        try (LastConfirmedAndEntry le = handle(r)
                .readLastAddConfirmedAndEntryAsync(r.get("entry").asLong(), r.get("timeoutMillis").asLong(), false).get()) {
            Map<String, Object> m = new TreeMap<>();
            m.put("lac", le.getLastAddConfirmed());
            if (le.hasEntry()) {
                m.put("entry", entry(le.getEntry()));
            }
            return m;
        }
    }

    private static Object metadata(LedgerMetadata l) {
        Map<String, Object> m = new TreeMap<>();
        m.put("format", l.getMetadataFormatVersion());
        m.put("ensemble", l.getEnsembleSize());
        m.put("write", l.getWriteQuorumSize());
        m.put("ack", l.getAckQuorumSize());
        m.put("state", l.getState().toString());
        m.put("last", l.isClosed() ? l.getLastEntryId() : -1);
        m.put("length", l.isClosed() ? l.getLength() : 0);
        m.put("digest", l.hasPassword() ? l.getDigestType().toString() : "");
        m.put("password", l.hasPassword() ? new String(l.getPassword(), StandardCharsets.UTF_8) : "");
        Map<String, String> custom = new TreeMap<>();
        l.getCustomMetadata().forEach((k, v) -> custom.put(k, new String(v, StandardCharsets.UTF_8)));
        m.put("custom", custom);
        List<Object> segments = new ArrayList<>();
        l.getAllEnsembles().forEach((first, ensemble) -> {
            List<String> ids = new ArrayList<>();
            ensemble.forEach(b -> ids.add(b.toString()));
            Map<String, Object> s = new TreeMap<>();
            s.put("first", first);
            s.put("bookies", ids);
            segments.add(s);
        });
        m.put("segments", segments);
        return m;
    }

    private Object ledgers(JsonNode r) throws Exception {
        // newListLedgersOp of this version stops after one range of ids
        List<Long> ids = new ArrayList<>();
        for (Long id : new BookKeeperAdmin(bk(r)).listLedgers()) {
            ids.add(id);
        }
        return ids;
    }

    private Object bookieInfo(JsonNode r) throws Exception {
        Map<String, Object> m = new TreeMap<>();
        bk(r).getBookieInfo().forEach((id, info) -> m.put(id.toString(), List.of(info.getTotalDiskSpace(), info.getFreeDiskSpace())));
        return m;
    }

    /** Which of the entries 0..count-1 one bookie says it has. */
    private Object entries(JsonNode r) throws Exception {
        AvailabilityOfEntriesOfLedger a = new BookKeeperAdmin(bk(r))
            .asyncGetListOfEntriesOfLedger(BookieId.parse(r.get("bookie").asText()), r.get("ledger").asLong()).get(20, TimeUnit.SECONDS);
        List<Long> ids = new ArrayList<>();
        for (long e = 0; e < r.get("count").asLong(); e++) {
            if (a.isEntryAvailable(e)) {
                ids.add(e);
            }
        }
        if (a.getTotalNumOfAvailableEntries() != ids.size()) {
            throw new IllegalStateException(a.getTotalNumOfAvailableEntries() + " entries in all, " + ids.size() + " of those asked for");
        }
        return ids;
    }

    /** The fragments of a ledger of which Java's ledger checker misses copies. */
    private Object check(JsonNode r) throws Exception {
        LedgerHandle h = new BookKeeperAdmin(bk(r)).openLedgerNoRecovery(r.get("ledger").asLong());
        CompletableFuture<List<String>> done = new CompletableFuture<>();
        new LedgerChecker(bk(r)).checkLedger(h, (rc, bad) -> {
            List<String> out = new ArrayList<>();
            if (bad != null) {
                for (LedgerFragment f : bad) {
                    out.add(f.toString());
                }
            }
            if (rc != 0) {
                out.add("code " + rc);
            }
            done.complete(out);
        }, 100);
        return done.get(30, TimeUnit.SECONDS);
    }
}
