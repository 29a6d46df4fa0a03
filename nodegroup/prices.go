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
	// current is nil until prices have been read. trouble is the text of the error with which the last read failed. It is empty
	// after a successful read.
	current atomic.Pointer[model.Prices]
	trouble atomic.Pointer[string]
}

// read reads the ConfigMap. When it cannot be read, the last prices stay in use.
func (p *prices) read(ctx context.Context) {
	if p.configMap.Name == "" {
		return
	}
	next, err := p.fetch(ctx)
	if err == nil {
		p.current.Store(next)
	}
	p.note(ctx, err)
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

// note logs an error of reading the prices, but only when the error changes.
func (p *prices) note(ctx context.Context, err error) {
	var text string
	if err != nil {
		text = err.Error()
	}
	if old := p.trouble.Swap(&text); (old == nil || *old != text) && err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading the prices failed; the previous prices stay in use")
	}
}
