package nodegroup

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/nodegroup/model"
)

// pricesKey is the key of the ConfigMap that holds the prices.
const pricesKey = "prices.yaml"

// prices reads the prices of servers from a ConfigMap.
type prices struct {
	live client.Reader
	// configMap has an empty name when there are no prices.
	configMap types.NamespacedName
	// current is nil until prices have been read.
	current atomic.Pointer[model.Prices]
	// trouble is the text of the error with which the last read failed; empty after a successful read. Only read uses it.
	trouble string
}

// read reads the ConfigMap. When it cannot be read, the last prices stay in use. It logs an error only when the error changes, and must not
// be called concurrently.
func (p *prices) read(ctx context.Context) {
	if p.configMap.Name == "" {
		return
	}
	next, err := p.fetch(ctx)
	if err == nil {
		p.current.Store(next)
		p.trouble = ""
	} else if err.Error() != p.trouble {
		p.trouble = err.Error()
		ctrl.LoggerFrom(ctx).Error(err, "Reading the prices failed; the previous prices stay in use")
	}
}

func (p *prices) fetch(ctx context.Context) (*model.Prices, error) {
	config := &corev1.ConfigMap{}
	if err := p.live.Get(ctx, p.configMap, config); err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %s: %w", p.configMap, err)
	}
	next, err := model.ReadPrices(config.Data[pricesKey])
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %s: %w", p.configMap, pricesKey, err)
	}
	return next, nil
}
