// Package process runs drover's real controllers in a world, and makes trouble for them: it counts their calls to cloud and
// cluster, and at a chosen call kills the process, takes its lease away, or has the call fail. It holds no knowledge of scenarios
// and of what must hold in the end.
package process
