package javapeer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// log4j makes Java's processes log warnings and worse, to stderr.
const log4j = `rootLogger.level=warn
rootLogger.appenderRef.o.ref=o
appender.o.type=Console
appender.o.name=o
appender.o.target=SYSTEM_ERR
appender.o.layout.type=PatternLayout
appender.o.layout.pattern=%d %p %c{1} %m%n
`

// Options of the JVM: small, quick to start, and what bookies need of the JDK's
// inner packages.
func jvmArgs(heap, logConf string) []string {
	return []string{
		"-Xmx" + heap, "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Djava.net.preferIPv4Stack=true", "-Dio.netty.leakDetectionLevel=disabled",
		"-Dio.netty.tryReflectionSetAccessible=true", "-Dlog4j2.configurationFile=" + logConf,
		"--add-opens", "java.base/java.nio=ALL-UNNAMED", "--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED",
		"--add-opens", "java.base/java.io=ALL-UNNAMED", "--add-opens", "java.base/java.util.zip=ALL-UNNAMED",
		"--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED",
	}
}

// Args are the arguments of `java` that run main with a heap ("128m") and a
// class path; its log settings go to dir.
func (j *Java) Args(dir, heap, classpath, main string, args ...string) ([]string, error) {
	conf := filepath.Join(dir, "log4j2.properties")
	if _, err := os.Stat(conf); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(conf, []byte(log4j), 0o644); err != nil {
			return nil, err
		}
	}
	return append(append(jvmArgs(heap, conf), "-cp", classpath, main), args...), nil
}

// process is a server of Apache's own jars, not started yet.
func (j *Java) process(dir, name, heap, main string, args ...string) (*proc.Process, error) {
	all, err := j.Args(dir, heap, j.Classpath(), main, args...)
	if err != nil {
		return nil, err
	}
	return proc.New(name, filepath.Join(dir, name+".log"), "java", all...), nil
}
