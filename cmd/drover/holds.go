package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/openstack"
)

// holdsConfigMap, in drover's namespace, has one key for each project and region of a Keystone: what its mass guard holds, as JSON.
const holdsConfigMap = "drover-mass-guard"

// holds keeps what the mass guards hold in a ConfigMap. It implements openstack.Holds.
type holds struct {
	client    client.Client
	namespace string
}

// notInKey matches what a key of a ConfigMap cannot have.
var notInKey = regexp.MustCompile(`[^-._a-zA-Z0-9]`)

// holdsKey returns the key of a project. The URL of its Keystone is in it as a hash.
func holdsKey(of openstack.HoldsKey) string {
	endpoint := sha256.Sum256([]byte(of.Endpoint))
	return notInKey.ReplaceAllString(fmt.Sprintf("%s.%s.%x", of.Project, of.Region, endpoint[:8]), "_")
}

// Load reads what is stored for a project in a region.
func (h holds) Load(ctx context.Context, of openstack.HoldsKey) (openstack.Held, error) {
	var stored corev1.ConfigMap
	var held openstack.Held
	err := h.client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: holdsConfigMap}, &stored)
	if err != nil {
		return held, client.IgnoreNotFound(err)
	}
	text, there := stored.Data[holdsKey(of)]
	if !there {
		return held, nil
	}
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return held, fmt.Errorf("reading key %s of ConfigMap %s/%s: %w; delete the key to begin without a hold", holdsKey(of), h.namespace, holdsConfigMap, err)
	}
	return held, nil
}

// Store writes it: one patch, and the creation of the ConfigMap the first time.
func (h holds) Store(ctx context.Context, of openstack.HoldsKey, held openstack.Held) error {
	text, err := json.Marshal(held)
	if err != nil {
		return fmt.Errorf("encoding what the mass guard holds: %w", err)
	}
	data := map[string]string{holdsKey(of): string(text)}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding what the mass guard holds: %w", err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: holdsConfigMap}}
	err = h.client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", patch))
	if apierrors.IsNotFound(err) {
		object.Data = data
		err = h.client.Create(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", h.namespace, holdsConfigMap, err)
	}
	return nil
}
