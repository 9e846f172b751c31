import type { Client, Tool } from '@modelcontextprotocol/client';
import { AgentLoopError, maxSchemaDepth, nestsTooDeep, shownValue } from '../core/contracts/index.ts';
import type { ClientSdk } from './load-sdk.ts';

/** What a server answers where it is asked for its tools. */
export interface ListedTools {
  readonly tools: readonly Tool[];
  /** What is in the list and is no tool of the protocol. */
  readonly flawed: readonly FlawedTool[];
  /** How long the list is valid, in milliseconds, where the server says that. */
  readonly ttlMs: number | undefined;
}

interface FlawedTool {
  /** Undefined where it says none. */
  readonly name: string | undefined;
  /** As the rest of a sentence. */
  readonly why: string;
}

interface ListToolsOptions {
  readonly schemas: ClientSdk['specTypeSchemas'];
  /** For each page. Milliseconds. */
  readonly timeout: number;
  /** Whether arguments are repeated in headers, so that a tool with a wrong declaration of them must not be used. */
  readonly hasHeaders: boolean;
}

/** Pages that one list may have. */
const maxPages = 1_000;

/** All pages. Up to 2025-11-25 a tool that the protocol does not allow is left out alone; after that the SDK refuses the page that holds it. */
export async function listTools(
  client: Client,
  { schemas, timeout, hasHeaders }: ListToolsOptions,
): Promise<ListedTools> {
  const tools: Tool[] = [];
  const flawed: FlawedTool[] = [];
  let ttlMs: number | undefined;
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const request = { method: 'tools/list', params: cursor === undefined ? {} : { cursor } };
    const answer = await client.request(request, schemas.PaginatedResult, { timeout });
    for (const each of listIn(answer)) {
      const parsed = schemas.Tool['~standard'].validate(each);
      const why = parsed.issues
        ? flawOf(each, parsed.issues)
        : (depthFlaw(parsed.value) ?? headerFlaw(parsed.value, hasHeaders));
      if (parsed.issues || why !== undefined) flawed.push({ name: nameOf(each), why: why ?? '' });
      else tools.push(parsed.value);
    }
    const ttl: unknown = Reflect.get(answer, 'ttlMs');
    if (typeof ttl === 'number') ttlMs = Math.min(ttl, ttlMs ?? ttl);
    cursor = answer.nextCursor;
    if (cursor === undefined) return { tools, flawed, ttlMs };
  }
  throw new AgentLoopError('TOOL_FAILED', `returned a list of tools that does not end after ${maxPages} pages`);
}

function listIn(answer: object): readonly unknown[] {
  const tools: unknown = Reflect.get(answer, 'tools');
  if (Array.isArray(tools)) return tools;
  throw new SyntaxError('a list of tools without tools');
}

function nameOf(tool: unknown): string | undefined {
  if (typeof tool !== 'object' || tool === null) return undefined;
  const name: unknown = Reflect.get(tool, 'name');
  return typeof name === 'string' ? name : undefined;
}

type Issues = readonly { readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined }[];

function flawOf(tool: unknown, [issue]: Issues): string {
  if (typeof tool !== 'object' || tool === null) return `it is ${shownValue(tool)}, no tool`;
  const path = (issue?.path ?? []).map((step) => String(typeof step === 'object' ? step.key : step));
  return `the protocol does not allow its ${path.join('.')}`;
}

function depthFlaw({ inputSchema }: Tool): string | undefined {
  return nestsTooDeep(inputSchema, maxSchemaDepth)
    ? `its schema nests deeper than ${maxSchemaDepth} levels`
    : undefined;
}

const headerKey = 'x-mcp-header';
const maxDepth = 100;

/** Why a tool's `x-mcp-header` declarations forbid its use over HTTP, as the rest of a sentence (MCP 2026-07-28, Streamable HTTP, schema extension). */
function headerFlaw({ inputSchema }: Tool, hasHeaders: boolean): string | undefined {
  if (!hasHeaders || !JSON.stringify(inputSchema).includes(headerKey)) return undefined;
  const names = new Set<string>();
  const flaw = (schema: unknown, depth: number, reachable: boolean): string | undefined => {
    if (!isObject(schema)) return undefined;
    if (depth > maxDepth) return `its ${headerKey} is nested too deeply`;
    if (Array.isArray(schema)) return firstFlaw(schema, (each) => flaw(each, depth + 1, false));
    const properties: unknown = Reflect.get(schema, 'properties');
    if (headerKey in schema) {
      const declared: unknown = schema[headerKey];
      const type: unknown = Reflect.get(schema, 'type');
      if (depth === 0 || !reachable) return `${headerKey} is not allowed where its schema has it`;
      if (typeof declared !== 'string' || !/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(declared))
        return `${headerKey} is no name of a header`;
      if (type !== 'string' && type !== 'integer' && type !== 'boolean')
        return `${headerKey} is only allowed for a string, an integer or a boolean`;
      if (names.has(declared.toLowerCase())) return `two of its properties have the same ${headerKey}`;
      names.add(declared.toLowerCase());
    }
    return (
      firstFlaw(Object.values(isObject(properties) ? properties : {}), (each) => flaw(each, depth + 1, reachable)) ??
      firstFlaw(subschemas(schema), (each) => flaw(each, depth + 1, false))
    );
  };
  return flaw(inputSchema, 0, true);
}

function firstFlaw(values: readonly unknown[], flaw: (value: unknown) => string | undefined): string | undefined {
  for (const value of values) {
    const found = flaw(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Keywords with a schema or an array of schemas, and those with schemas by name. */
const single = new Set(
  'items prefixItems contains additionalProperties unevaluatedProperties unevaluatedItems propertyNames oneOf anyOf allOf not if then else'.split(
    ' ',
  ),
);
const byName = new Set(['patternProperties', 'dependentSchemas', '$defs', 'definitions']);

function subschemas(schema: object): readonly unknown[] {
  return Object.entries(schema).flatMap(([keyword, value]: [string, unknown]) => {
    if (single.has(keyword)) return [value];
    return byName.has(keyword) && isObject(value) ? Object.values(value) : [];
  });
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
