# syntax=docker/dockerfile:1
# The image of drover: one static binary, no shell, user 65532. For two architectures:
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 --tag registry.example.com/drover:0.1.0 --push .
# `make release` demands a digest behind each base image; docker buildx imagetools inspect IMAGE shows it.
# The build runs on the machine's own architecture and compiles for the other one.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -tags grpcnotrace -ldflags "-s -w -X github.com/drover-project/drover/version.version=$VERSION" -o /drover ./cmd/drover

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /drover /usr/local/bin/drover
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/drover"]
