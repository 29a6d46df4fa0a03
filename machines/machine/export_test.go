package machine

import "sigs.k8s.io/controller-runtime/pkg/client"

// WithIndexes tells each index that the controller asks of its caches.
func WithIndexes(add func(object client.Object, name string, key client.IndexerFunc)) {
	for _, i := range indexes {
		add(i.object, i.name, oneKey(i.key))
	}
}

// LongestUnwritten is how long a change that is not urgent may wait for another write, of any Machine.
const LongestUnwritten = longestComing
