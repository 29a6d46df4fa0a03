package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapgrpc"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// setLoggers sets up one JSON log for all loggers of the process: drover's, client-go's (klog), gRPC's, and the standard
// library's log and slog. gRPC logs only errors, which is its own default.
func setLoggers(verbosity int) {
	raw := zap.NewRaw(zap.UseDevMode(false), zap.Level(logLevel(verbosity)), zap.WriteTo(visible{os.Stderr}))
	logger := zapr.NewLogger(raw)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger))) // SetDefault also redirects package log
	grpclog.SetLoggerV2(zapgrpc.NewLogger(raw.WithOptions(uberzap.IncreaseLevel(zapcore.ErrorLevel))))
}

// mostVerbose is the highest level that is logged. From level 8 on client-go logs the bodies of requests and answers, and Secrets are
// among them.
const mostVerbose = 7

// logLevel converts -v into zap's level, where a lower number logs more.
func logLevel(verbosity int) zapcore.Level { return zapcore.Level(-min(verbosity, mostVerbose)) }

// visible is a writer of JSON that escapes invisible characters, such as U+202E, which changes the direction of the text behind it.
// They can only be in strings.
type visible struct{ io.Writer }

// Write implements io.Writer.
func (v visible) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, invisible) {
		return v.Writer.Write(line)
	}
	var escaped []byte
	for _, r := range string(line) {
		if !invisible(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	if _, err := v.Writer.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}

func invisible(r rune) bool { return unicode.Is(unicode.Cf, r) }
