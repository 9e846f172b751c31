/** Version suffixes of vendors and gateways in model names. */
const versionSuffix = /(?:[-@]\d{4}-\d{2}-\d{2}|[-@]\d{3,8}|-v\d+(?::\d+)?|-latest|-exp|-preview(?:-\d{2}-\d{2,4})?)$/;

/** A provider in front of the name, with dots as Bedrock writes it: `us.anthropic.`. */
const dottedProvider = /^(?:[a-z]+\.)+/;

/**
 * The names under which a model may be known, the longest first: the name as it stands, each also without its version,
 * then the same without one provider after the other (`openrouter/anthropic/…`, `us.anthropic.…`). In lower case.
 */
export function* possibleNames(name: string): Generator<string> {
  let rest = name.toLowerCase();
  for (;;) {
    yield* withoutVersions(rest);
    const slash = rest.indexOf('/');
    const next = slash >= 0 ? rest.slice(slash + 1) : rest.replace(dottedProvider, '');
    if (next === rest) return;
    rest = next;
  }
}

function* withoutVersions(name: string): Generator<string> {
  let rest = name;
  for (;;) {
    yield rest;
    const shorter = rest.replace(versionSuffix, '');
    if (shorter === rest) return;
    rest = shorter;
  }
}
