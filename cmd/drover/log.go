package main

import (
	"log/slog"

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

// setLoggers makes one JSON log of everything that the process logs: its own lines, those of client-go (klog), of gRPC, and
// of the standard library's log and slog. Of gRPC only errors are logged, which is its own default.
func setLoggers(verbosity int) {
	raw := zap.NewRaw(zap.UseDevMode(false), zap.Level(logLevel(verbosity)))
	logger := zapr.NewLogger(raw)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger))) // also takes over package log
	grpclog.SetLoggerV2(zapgrpc.NewLogger(raw.WithOptions(uberzap.IncreaseLevel(zapcore.ErrorLevel))))
}

// logLevel turns -v into zap's level, where more is said the lower the number.
func logLevel(verbosity int) zapcore.Level { return zapcore.Level(-verbosity) }
