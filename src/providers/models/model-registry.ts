import { AgentLoopError } from '../../core/contracts/index.ts';
import { knownModels } from './known-models.ts';
import type { ModelInfo } from './model-info.ts';

/**
 * What is known of models, by name. An immutable value: {@link ModelRegistry.with} gives another one.
 *
 * A name may carry the way to the model in front (`openai/`, `openrouter/anthropic/`, `us.anthropic.`) and a version
 * behind (`-2025-08-07`, `-latest`, `@20250929`, `-v1:0`); the longest name that is known counts. So an entry
 * `azure/gpt-5` holds for what goes that way, and `gpt-5` for all else. Capitals do not matter. A variant that has no
 * entry, such as `gpt-5-turbo`, is not taken for its relative.
 */
export class ModelRegistry {
  readonly #models: ReadonlyMap<string, ModelInfo>;

  /** Default: the models of several vendors that this version knows, see `names`. A later entry adds to an earlier one of the same name, member by member. */
  constructor(models: readonly ModelInfo[] = knownModels()) {
    const byName = new Map<string, ModelInfo>();
    for (const model of models) byName.set(keyOf(model), { ...byName.get(keyOf(model)), ...model });
    this.#models = byName;
  }

  /** The same models and these; a member that is given here replaces the one that was known. */
  with(...models: readonly ModelInfo[]): ModelRegistry {
    return new ModelRegistry([...this.#models.values(), ...models]);
  }

  /** The names of all models that are known, in the order in which they were given. */
  get names(): readonly string[] {
    return [...this.#models.values()].map(({ name }) => name);
  }

  /** The model of that name, found as the class says; `undefined` where it is not known. */
  find(name: string): ModelInfo | undefined {
    for (const possible of possibleNames(name)) {
      const model = this.#models.get(possible);
      if (model) return model;
    }
    return undefined;
  }

  /** As `find`. Throws `INVALID_CONFIG`, naming the names that are most like it, where the model is not known. */
  requireModel(name: string): ModelInfo {
    const model = this.find(name);
    if (model) return model;
    const wanted = [...possibleNames(name)].at(-1) ?? name;
    const closest = closestNames(wanted, this.names);
    const hint = closest.length > 0 ? `; the closest names are: ${closest.join(', ')}` : '';
    const cure = 'tell what is known of it by `registry.with({ name, … })`';
    throw new AgentLoopError('INVALID_CONFIG', `The model ${JSON.stringify(name)} is not known${hint}; ${cure}.`);
  }
}

function keyOf({ name }: ModelInfo): string {
  return name.toLowerCase();
}

/** Version suffixes of vendors and gateways in model names. */
const versionSuffix = /(?:[-@]\d{4}-\d{2}-\d{2}|[-@]\d{3,8}|-v\d+(?::\d+)?|-latest|-exp|-preview(?:-\d{2}-\d{2,4})?)$/;

/** A provider in front of the name, with dots as Bedrock writes it: `us.anthropic.`. */
const dottedProvider = /^(?:[a-z]+\.)+/;

/**
 * The names under which a model may be known, the longest first: the name as it stands, each also without its version,
 * then the same without one provider after the other (`openrouter/anthropic/…`, `us.anthropic.…`). In lower case.
 */
function* possibleNames(name: string): Generator<string> {
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

/** The names most like `wanted`, the closest first: those that begin with it or hold it, then those a few letters away. */
export function closestNames(wanted: string, names: readonly string[], count = 3): readonly string[] {
  const key = wanted.toLowerCase();
  return names
    .map((name) => ({ name, distance: distanceOf(key, name.toLowerCase()) }))
    .filter(({ distance }) => distance <= Math.max(2, Math.floor(key.length / 3)))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, count)
    .map(({ name }) => name);
}

function distanceOf(wanted: string, name: string): number {
  if (wanted.length >= 3 && name.startsWith(wanted)) return 0;
  if (wanted.length >= 3 && name.includes(wanted)) return 1;
  return editDistance(wanted, name);
}

/** How many letters have to be put in, left out or replaced to make one text of the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...a].entries()) {
    row = nextRow(row, { letter, first: index + 1, other: b });
  }
  return row.at(-1) ?? 0;
}

function nextRow(
  row: readonly number[],
  { letter, first, other }: { letter: string; first: number; other: string },
): number[] {
  const next = [first];
  for (let column = 1; column < row.length; column += 1) {
    const replaced = (row[column - 1] ?? 0) + (other[column - 1] === letter ? 0 : 1);
    next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
  }
  return next;
}
