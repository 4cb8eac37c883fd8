"""The HTTP face: routes, schemas, problems and limits. The only package that knows a status code."""
