package javapeer

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

//go:embed pom.xml
var pom []byte

// Java is what it takes to run Java processes: a JVM, and jars in a cache
// directory.
type Java struct {
	dir string // of the cache; its name carries the content of pom.xml
}

// Setup finds Java and Maven and fetches the jars unless they are cached. Any
// number of processes may call it at the same time.
func Setup(ctx context.Context) (*Java, error) {
	for _, need := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(need); err != nil {
			return nil, fmt.Errorf("%s is not in PATH: tests against Java need a JDK (17 or later) and Maven: %w", need, err)
		}
	}
	base := os.Getenv("LOGLODE_JAVA_CACHE")
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no cache directory, set LOGLODE_JAVA_CACHE: %w", err)
		}
		base = filepath.Join(user, "loglode", "java")
	}
	j := &Java{dir: filepath.Join(base, hash(pom))}
	return j, j.once(ctx, "lib", j.fetch)
}

// once makes the directory name in the cache by run, if it is not there. It
// appears whole or not at all.
func (j *Java) once(ctx context.Context, name string, run func(ctx context.Context, dir string) error) error {
	dir := filepath.Join(j.dir, name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(j.dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // nothing is there any more if all went well
	if err := run(ctx, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

// lock keeps other processes out; it ends with the process at the latest.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}

func (j *Java) fetch(ctx context.Context, dir string) error {
	work, err := os.MkdirTemp("", "loglode-pom-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	file := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return err
	}
	_, err = run(ctx, "mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+dir)
	return err
}

// Compile compiles the Java sources of a directory, once for each content, and
// gives the class path to run them with.
func (j *Java) Compile(ctx context.Context, dir string) (classpath string, err error) {
	sources, err := filepath.Glob(filepath.Join(dir, "*.java"))
	if err != nil {
		return "", err
	}
	if len(sources) == 0 {
		return "", fmt.Errorf("no Java sources in %s", dir)
	}
	slices.Sort(sources)
	var all bytes.Buffer
	for _, s := range sources {
		text, err := os.ReadFile(s)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%s %d\n%s", filepath.Base(s), len(text), text)
	}
	name := filepath.Join("classes", hash(all.Bytes()))
	err = j.once(ctx, name, func(ctx context.Context, out string) error {
		args := append([]string{"-nowarn", "--release", "17", "-cp", j.Classpath(), "-d", out}, sources...)
		_, err := run(ctx, "javac", args...)
		return err
	})
	return filepath.Join(j.dir, name) + string(os.PathListSeparator) + j.Classpath(), err
}

// Classpath names the jars of Apache's bookies, client and ZooKeeper.
func (j *Java) Classpath() string { return filepath.Join(j.dir, "lib", "*") }

// run runs a command to its end and gives its stdout; its error carries all
// that the command said.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s\n%s", name, err, strings.TrimSpace(said.String()), strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
