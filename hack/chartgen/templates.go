package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// separator is the line between the documents in a file.
	separator = "\n---\n"
	// released is the namespace of the release.
	released = "{{ $.Release.Namespace }}"
	// autoscalers is the namespace of the autoscaler.
	autoscalers = `{{ include "drover.autoscaler.namespace" $ }}`
)

func unchanged(manifest string) (string, error) { return manifest, nil }

// document is one document in a file.
type document struct {
	text, kind, name, namespace string
}

func documents(manifest string) ([]document, error) {
	var out []document
	for text := range strings.SplitSeq(strings.TrimRight(manifest, "\n"), separator) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return nil, fmt.Errorf("decoding it: %w", err)
		}
		out = append(out, document{text: text, kind: o.GetKind(), name: o.GetName(), namespace: o.GetNamespace()})
	}
	return out, nil
}

// in returns the document with the namespace from replaced by the namespace to.
func (d document) in(from, to string) document {
	d.text = strings.ReplaceAll(d.text+"\n", "namespace: "+from+"\n", "namespace: "+to+"\n")
	d.text = strings.TrimSuffix(d.text, "\n")
	return d
}

// when returns the document enclosed in a template action, such as an if.
func (d document) when(action string) document {
	d.text = "{{- " + action + " }}\n---\n" + d.text + "\n{{- end }}"
	return d
}

func join(all []document) string {
	var texts []string
	for _, d := range all {
		texts = append(texts, d.text)
	}
	return strings.Join(texts, separator) + "\n"
}

// roles returns the template of drover's roles. drover's namespace is the release's. The template leaves out the Namespace object,
// because Helm creates that namespace itself. The chart's values name the Secrets of certificates, and the namespaces whose Secrets and
// ConfigMaps drover may read for Machines.
func roles(manifest string) (string, error) {
	all, err := documents(manifest)
	if err != nil {
		return "", err
	}
	var out []document
	for _, d := range all {
		switch {
		case d.kind == "Namespace":
			continue
		case d.name == "drover:autoscaler-certificate":
			d = d.in(d.namespace, "{{ $.Values.autoscaler.namespace }}").in("drover", released).when(`if include "drover.selfSigned" .`)
		case d.name == "drover:server-certificate":
			d = d.in("drover", released).when(`if include "drover.selfSigned" .`)
		case d.kind == "RoleBinding" && d.name == "drover:references":
			d = d.in(d.namespace, "{{ . }}").in("drover", released).when("range .Values.machineNamespaces")
		default:
			d = d.in("drover", released)
		}
		out = append(out, d)
	}
	return strings.NewReplacer(
		"resourceNames: [drover-grpc]", "resourceNames: [{{ $.Values.tls.serverSecretName }}]",
		"resourceNames: [cluster-autoscaler-drover]", "resourceNames: [{{ $.Values.tls.clientSecretName }}]",
	).Replace(join(out)), nil
}

// beside returns the template of a manifest that is applied only while machine-controller is also installed.
func beside(manifest string) (string, error) {
	return "{{- if .Values.machineController.installed }}\n" + manifest + "{{- end }}\n", nil
}

// managed returns the template of a RoleBinding for user data of operating-system-manager. The chart leaves it out when the values name its
// namespace among those with Machines, because the RoleBinding for these has the same name.
func managed(manifest string) (string, error) {
	all, err := documents(manifest)
	if err != nil {
		return "", err
	}
	for i, d := range all {
		all[i] = d.in("drover", released).when(fmt.Sprintf("if and .Values.operatingSystemManager.installed (not (has %q .Values.machineNamespaces))", d.namespace))
	}
	return join(all), nil
}

// autoscaler returns the template of the autoscaler's roles. It leaves out the ServiceAccount unless the autoscaler has its own
// pod: in drover's pod the autoscaler runs under drover's ServiceAccount.
func autoscaler(manifest string) (string, error) {
	all, err := documents(manifest)
	if err != nil {
		return "", err
	}
	const subject, account = "  - kind: ServiceAccount\n    name: cluster-autoscaler\n", "  - kind: ServiceAccount\n    name: {{ include \"drover.autoscaler.account\" . }}\n"
	var out []document
	for _, d := range all {
		d = d.in("kube-system", autoscalers)
		d.text = strings.ReplaceAll(d.text, subject, account)
		if d.kind == "ServiceAccount" {
			d = d.when(`if eq .Values.autoscaler.mode "separate"`)
		}
		out = append(out, d)
	}
	return "{{- if include \"drover.autoscaler.installed\" . }}\n" + join(out) + "{{- end }}\n", nil
}
