package javapeer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// log4j makes Java's processes log from a level on, to a stream, by a pattern.
const log4j = `rootLogger.level=%s
rootLogger.appenderRef.o.ref=o
appender.o.type=Console
appender.o.name=o
appender.o.target=%s
appender.o.layout.type=PatternLayout
appender.o.layout.pattern=%s
`

// logs writes log settings in dir, once, and gives the file.
func logs(dir, name, level, stream, pattern string) (string, error) {
	conf := filepath.Join(dir, name)
	if _, err := os.Stat(conf); !errors.Is(err, fs.ErrNotExist) {
		return conf, err
	}
	return conf, os.WriteFile(conf, fmt.Appendf(nil, log4j, level, stream, pattern), 0o644)
}

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
	conf, err := logs(dir, "log4j2.properties", "warn", "SYSTEM_ERR", "%d %p %c{1} %m%n")
	if err != nil {
		return nil, err
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
