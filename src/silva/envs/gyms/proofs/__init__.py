"""Small tasks written for other frameworks, by which the bridges to them are proven (`silva envs test inspect`)."""
