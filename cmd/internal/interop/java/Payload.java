import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;

/** The payload of entry {@code index} of a test's ledger: both sides can make it. */
final class Payload {
    private Payload() {}

    static byte[] make(long seed, long index, int size) {
        ByteBuffer b = ByteBuffer.allocate((size + 7) / 8 * 8).order(ByteOrder.LITTLE_ENDIAN);
        long x = seed * 0x9E3779B97F4A7C15L + index * 0xBF58476D1CE4E5B9L + 1;
        while (b.hasRemaining()) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
            b.putLong(x);
        }
        byte[] out = new byte[size];
        System.arraycopy(b.array(), 0, out, 0, size);
        return out;
    }

    static String sum(byte[] payload) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(payload);
        StringBuilder s = new StringBuilder();
        for (byte x : digest) {
            s.append(String.format("%02x", x));
        }
        return s.toString();
    }
}
