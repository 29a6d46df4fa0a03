// Package install tests what an operator installs. It applies the Helm charts and the kustomizations, which must be
// equal, to a real control plane. It then runs drover as the Deployment specifies, with the Deployment's arguments,
// account, roles, Secrets and ConfigMaps, and with a simulated OpenStack. It also tests the build of the image, as far
// as that is possible without a container engine.
package install
