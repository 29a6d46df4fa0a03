package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// CredentialsFromEnvironment reads the environment variables of OpenStack's own clients; callers pass os.Getenv as lookup. The
// caller reads the CA bundle, because OS_CACERT is a path.
func CredentialsFromEnvironment(lookup func(string) string) Credentials {
	first := func(names ...string) string {
		for _, name := range names {
			if text := lookup(name); text != "" {
				return text
			}
		}
		return ""
	}
	return Credentials{
		IdentityEndpoint: first("OS_AUTH_URL"), Region: first("OS_REGION_NAME"), Interface: first("OS_INTERFACE"),
		Username: first("OS_USERNAME", "OS_USER_NAME"), Password: first("OS_PASSWORD"), Token: first("OS_TOKEN"),
		DomainName: first("OS_DOMAIN_NAME", "OS_USER_DOMAIN_NAME"), DomainID: first("OS_DOMAIN_ID", "OS_USER_DOMAIN_ID"),
		UserDomainName: first("OS_USER_DOMAIN_NAME"), UserDomainID: first("OS_USER_DOMAIN_ID"),
		ProjectDomainName: first("OS_PROJECT_DOMAIN_NAME"), ProjectDomainID: first("OS_PROJECT_DOMAIN_ID"),
		ProjectName: first("OS_PROJECT_NAME", "OS_TENANT_NAME"), ProjectID: first("OS_PROJECT_ID", "OS_TENANT_ID"),
		ApplicationCredentialID:     first("OS_APPLICATION_CREDENTIAL_ID"),
		ApplicationCredentialName:   first("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: first("OS_APPLICATION_CREDENTIAL_SECRET"),
	}
}

// cloudsFile holds the fields of a clouds.yaml that drover uses.
type cloudsFile struct {
	Clouds map[string]struct {
		Auth struct {
			AuthURL           string `json:"auth_url"`
			Username          string `json:"username"`
			Password          string `json:"password"`
			ProjectName       string `json:"project_name"`
			ProjectID         string `json:"project_id"`
			DomainName        string `json:"domain_name"`
			DomainID          string `json:"domain_id"`
			UserDomainName    string `json:"user_domain_name"`
			UserDomainID      string `json:"user_domain_id"`
			ProjectDomainName string `json:"project_domain_name"`
			ProjectDomainID   string `json:"project_domain_id"`
			Token             string `json:"token"`
			AppID             string `json:"application_credential_id"`
			AppName           string `json:"application_credential_name"`
			AppSecret         string `json:"application_credential_secret"`
		} `json:"auth"`
		RegionName string `json:"region_name"`
		Interface  string `json:"interface"`
		CACert     string `json:"cacert"`
	} `json:"clouds"`
}

// CredentialsFromClouds reads one cloud of a clouds.yaml; an empty name selects the only one. The second result is the path of
// the cloud's CA bundle; empty when the cloud has no CA bundle. Profiles (clouds-public.yaml) and secure.yaml are not supported.
func CredentialsFromClouds(document []byte, name string) (Credentials, string, error) {
	var file cloudsFile
	if err := yaml.Unmarshal(document, &file); err != nil {
		return Credentials{}, "", fmt.Errorf("reading clouds.yaml: %w", err)
	}
	names := slices.Sorted(maps.Keys(file.Clouds))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	c, ok := file.Clouds[name]
	if !ok {
		return Credentials{}, "", fmt.Errorf("clouds.yaml has no cloud %q; it has: %s", name, strings.Join(names, ", "))
	}
	a := c.Auth
	return Credentials{
		IdentityEndpoint: a.AuthURL, Region: c.RegionName, Interface: c.Interface,
		Username: a.Username, Password: a.Password, Token: a.Token, DomainName: a.DomainName, DomainID: a.DomainID,
		UserDomainName: a.UserDomainName, UserDomainID: a.UserDomainID,
		ProjectDomainName: a.ProjectDomainName, ProjectDomainID: a.ProjectDomainID,
		ProjectName: a.ProjectName, ProjectID: a.ProjectID,
		ApplicationCredentialID: a.AppID, ApplicationCredentialName: a.AppName, ApplicationCredentialSecret: a.AppSecret,
	}, c.CACert, nil
}
