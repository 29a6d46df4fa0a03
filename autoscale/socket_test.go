package autoscale

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTheUnixSocketOfTheGRPCServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	options := Options{Groups: &stub{}, Address: unixScheme + path}
	t.Run("a second gRPC server cannot listen on the socket of a first, and the first removes the socket when it stops", func(t *testing.T) {
		address, stop := serving(t, options)
		if err := call(t, address, nil); err != nil {
			t.Error(err)
		}
		second, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second server on it: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket still exists: %v", err)
		}
	})
	t.Run("a socket that a killed drover process left behind is replaced", func(t *testing.T) {
		left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		_ = left.Close()
		address, _ := serving(t, options)
		if err := call(t, address, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestOnlyDroversUserAndGroupMayUseTheGRPCSocket(t *testing.T) {
	for _, tc := range []struct {
		name      string
		directory string // relative to the temporary directory of the test
		mode      os.FileMode
		made      os.FileMode // the directory's mode once the server listens
	}{
		{"in an existing directory has the mode 0660, and the directory keeps its mode", "there", 0o755, 0o755},
		{"in a directory that drover creates has the mode 0660, and the directory has the mode 0750", "missing", 0, 0o750},
	} {
		t.Run("a socket "+tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), tc.directory)
			if tc.mode != 0 {
				mkdir(t, dir, tc.mode)
			}
			path := filepath.Join(dir, "s")
			serving(t, Options{Groups: &stub{}, Address: unixScheme + path})
			for name, want := range map[string]os.FileMode{path: 0o660, dir: tc.made} {
				info, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				if got := info.Mode().Perm(); got != want {
					t.Errorf("%s has mode %o, want %o", name, got, want)
				}
			}
		})
	}
	t.Run("a socket has its final file mode from the start, so that no other user can connect", func(t *testing.T) {
		before := syscall.Umask(0)
		defer syscall.Umask(before)
		path := filepath.Join(t.TempDir(), "s")
		listener, err := bindSocket(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != socketMode {
			t.Errorf("the mode is %o, want %o", got, socketMode)
		}
	})
}

func mkdir(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
}

func TestUnixSocketsThatTheGRPCServerRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T, dir string) (path string)
		want string
	}{
		{"a socket in a directory that every user may write to, such as an emptyDir, is refused", func(t *testing.T, dir string) string {
			mkdir(t, filepath.Join(dir, "open"), 0o777)
			return filepath.Join(dir, "open", "s")
		}, "every user may write to the directory"},
		{"a socket in a directory that every user may write to is refused even with the sticky bit", func(t *testing.T, dir string) string {
			mkdir(t, filepath.Join(dir, "open"), 0o777|os.ModeSticky)
			return filepath.Join(dir, "open", "s")
		}, "every user may write to the directory"},
		{"a socket in another user's directory is refused", func(t *testing.T, dir string) string {
			mkdir(t, filepath.Join(dir, "theirs"), 0o755)
			if err := os.Chown(filepath.Join(dir, "theirs"), 12345, 12345); err != nil && os.Geteuid() == 0 {
				t.Fatal(err)
			}
			return filepath.Join(dir, "theirs", "s")
		}, "belongs to user 12345"},
		{"a socket is refused when both its directory and the parent of this directory are missing", func(_ *testing.T, dir string) string { return filepath.Join(dir, "a", "b", "s") }, "making the directory of the socket"},
		{"a socket path at which another kind of file exists is refused", func(t *testing.T, dir string) string {
			if err := os.WriteFile(filepath.Join(dir, "precious"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "precious")
		}, "not a socket"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := tc.make(t, t.TempDir())
			if strings.Contains(tc.want, "12345") && os.Geteuid() != 0 {
				// Only root can change the owner of a directory, so other users skip this row. They cannot use the machine's
				// root directory instead: it belongs to root, and drover trusts root.
				return
			}
			s, err := New(Options{Groups: &stub{}, Address: unixScheme + path})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--grpc-address") {
				t.Errorf("the error is %v, want something with %q", err, tc.want)
			}
		})
	}
	for name, path := range map[string]string{
		"a socket path that is too long is refused":                                        "/" + strings.Repeat("a", longestSocket),
		"a socket path with a colon is refused, because no autoscaler accepts such a path": "/run/a:b",
		"a relative socket path is refused":                                                "drover.sock",
		"a socket path in --grpc-address is refused when only a comma follows it":          "/run/drover/s,",
	} {
		t.Run(name, func(t *testing.T) {
			if err := (Options{Address: unixScheme + path}).Validate(); err == nil || !strings.Contains(err.Error(), "--grpc-address") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestAGRPCServerThatListensOnATCPPortAndAUnixSocket(t *testing.T) {
	a := newAuthority(t)
	cert, key, ca := a.files(t.TempDir(), "drover")
	path := filepath.Join(t.TempDir(), "s")
	groups := &stub{}
	address, stop := serving(t, Options{
		Groups: groups, Address: "127.0.0.1:0," + unixScheme + path, Cert: cert, Key: key, ClientCA: ca, AllowedClients: []string{"autoscaler"},
	})
	socket := &net.UnixAddr{Name: path, Net: "unix"}
	t.Run("a client of the port needs a certificate", func(t *testing.T) {
		if err := call(t, address, a.credentials("autoscaler", a)); err != nil {
			t.Error(err)
		}
		if err := call(t, address, nil); status.Code(err) != codes.Unavailable {
			t.Errorf("without one the answer is %v", err)
		}
	})
	t.Run("a client of the socket needs no certificate", func(t *testing.T) {
		if err := call(t, socket, nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("package nodegroup reads the sizes of its groups again after each new connection to the port or the socket", func(t *testing.T) {
		if got := groups.connected(); got != 2 {
			t.Errorf("%d clients connected", got)
		}
	})
	t.Run("the port and the socket close when the server stops", func(t *testing.T) {
		if err := stop(); err != nil {
			t.Error(err)
		}
		for _, at := range []net.Addr{address, socket} {
			if conn, err := net.Dial(at.Network(), at.String()); err == nil {
				_ = conn.Close()
				t.Errorf("%v is still open", at)
			}
		}
	})
	t.Run("the socket is removed again when the server cannot start because another program uses the port", func(t *testing.T) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = taken.Close() }()
		if _, err := listenAll(t.Context(), unixScheme+path+","+taken.Addr().String()); err == nil {
			t.Error("it listens")
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket exists: %v", err)
		}
	})
}
