// Command fedpace-plugins is fedpace with the plug-ins of package plugins.
package main
