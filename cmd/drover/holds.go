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

// holdsConfigMap is the prefix of the names of the ConfigMaps that store the holds of the mass-deletion guard, in drover's
// namespace. There is one ConfigMap for each Keystone. It has one key per project and region, with the holds as JSON.
const holdsConfigMap = "drover-mass-guard"

// holds stores the holds of the mass-deletion guards in a ConfigMap. It implements openstack.Holds.
type holds struct {
	client    client.Client
	namespace string
}

// notInKey matches characters that are not allowed in a key of a ConfigMap.
var notInKey = regexp.MustCompile(`[^-._a-zA-Z0-9]`)

// holdsName returns the name of a Keystone's ConfigMap, which contains a hash of the Keystone's URL. A ConfigMap holds at most 1
// MiB. Because each Keystone has its own ConfigMap, a user who configures one cloud cannot fill the ConfigMap of another cloud.
func holdsName(of openstack.HoldsKey) string {
	endpoint := sha256.Sum256([]byte(of.Endpoint))
	return fmt.Sprintf("%s-%x", holdsConfigMap, endpoint[:8])
}

// holdsKey returns a project's key in the ConfigMap.
func holdsKey(of openstack.HoldsKey) string {
	return notInKey.ReplaceAllString(of.Project+"."+of.Region, "_")
}

// Load reads the stored holds of a project in a region.
func (h holds) Load(ctx context.Context, of openstack.HoldsKey) (openstack.Held, error) {
	var stored corev1.ConfigMap
	var held openstack.Held
	err := h.client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: holdsName(of)}, &stored)
	if err != nil {
		return held, client.IgnoreNotFound(err)
	}
	text, there := stored.Data[holdsKey(of)]
	if !there {
		return held, nil
	}
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return held, fmt.Errorf("reading key %s of ConfigMap %s/%s: %w; delete the key, so that the mass-deletion guard starts without held servers", holdsKey(of), h.namespace, holdsName(of), err)
	}
	return held, nil
}

// Store writes the holds of a project with one patch. If the ConfigMap does not exist yet, Store creates it.
func (h holds) Store(ctx context.Context, of openstack.HoldsKey, held openstack.Held) error {
	text, err := json.Marshal(held)
	if err != nil {
		return fmt.Errorf("encoding the state of the mass-deletion guard: %w", err)
	}
	data := map[string]string{holdsKey(of): string(text)}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding the state of the mass-deletion guard: %w", err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: holdsName(of)}}
	err = h.client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", patch))
	if apierrors.IsNotFound(err) {
		object.Data = data
		err = h.client.Create(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", h.namespace, holdsName(of), err)
	}
	return nil
}
