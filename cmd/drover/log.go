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

// setLoggers sets up one JSON log for all loggers of the process: drover's, client-go's (klog), gRPC's, and the standard
// library's log and slog. gRPC logs only errors, which is its own default.
func setLoggers(verbosity int) {
	raw := zap.NewRaw(zap.UseDevMode(false), zap.Level(logLevel(verbosity)))
	logger := zapr.NewLogger(raw)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger))) // SetDefault also redirects package log
	grpclog.SetLoggerV2(zapgrpc.NewLogger(raw.WithOptions(uberzap.IncreaseLevel(zapcore.ErrorLevel))))
}

// logLevel converts -v into zap's level, where a lower number logs more.
func logLevel(verbosity int) zapcore.Level { return zapcore.Level(-verbosity) }
