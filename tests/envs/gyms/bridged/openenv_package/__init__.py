"""An OpenEnv environment in the layout that its own tool makes: a package whose server lies in a folder."""
