import { describe, expect, it } from '@jest/globals';
import {
  AgentLoop,
  AgentLoopError,
  agent,
  cacheResponses,
  circuitBreaker,
  compactHistory,
  errorCodes,
  fallback,
  hedge,
  InMemoryStateStore,
  limitConcurrency,
  limits,
  rateLimit,
  recordResponses,
  replayResponses,
  retry,
  structuredOutput,
  timeout,
  tool,
  toolOutputCache,
  windowHistory,
} from 'millrace';
import { a2aRequestHandler } from 'millrace/a2a';
import { AISDKProvider, vendorNames } from 'millrace/ai-sdk';
import {
  assertServerOptions,
  checkListening,
  defaultLimits,
  eventKinds,
  hookNames,
  messageOf,
  resolveRemote,
} from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { mcpServer, mcpTools } from 'millrace/mcp';
import { S3ArtifactStore } from 'millrace/s3';
import { scriptedLLM } from 'millrace/testing';
import { runInProcess } from '../cli/run-in-process.ts';
import { rows } from '../core/tables/record-rows.ts';
import { textOf } from './markdown.ts';

/** What stands as code in the first column of the page's tables, under the headings that match. */
function firstColumn(page: string, heading = /./): readonly string[] {
  const sections = textOf(page)
    .split(/^###? /m)
    .slice(1)
    .filter((section) => heading.test(section.split('\n', 1)[0] ?? ''));
  const cells = sections.flatMap((section) => [...section.matchAll(/^\| (`[^|]*`) +\|/gm)].map((match) => match[1]));
  return cells.flatMap((cell) => [...(cell ?? '').matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? ''));
}

/** The options that something names when it is given one that it does not know. */
function knownOptions(give: () => unknown): readonly string[] {
  try {
    give();
  } catch (error) {
    if (!AgentLoopError.isInstance(error)) throw error;
    const list = /(?:the options are:?|those are) ([\w, ]+)\.$/.exec(messageOf(error))?.[1];
    if (list !== undefined) return list.split(', ').sort();
  }
  throw new Error('nothing was refused');
}

describe('docs/errors.md', () => {
  it('lists every code once, and no other', () => {
    expect([...firstColumn('docs/errors.md')].sort()).toEqual([...errorCodes].sort());
  });
});

describe('the guides', () => {
  it('list every option of AgentLoop', () => {
    const stray = { agentId: 'a', llmProvider: scriptedLLM([]), stray: 1 };
    expect([...firstColumn('docs/agent-lifecycle.md', /Configuration/)].sort()).toEqual(
      knownOptions(() => new AgentLoop(stray)),
    );
  });

  it('list every option of agents that loops do not have, or have otherwise', () => {
    const ofLoops = knownOptions(() => Reflect.construct(AgentLoop, [{ stray: 1 }]));
    const own = knownOptions(() => Reflect.apply(agent, undefined, [{ stray: 1 }])).filter(
      (name) => name === 'model' || name === 'systemPrompt' || !ofLoops.includes(name),
    );
    expect([...firstColumn('docs/agents.md', /Options/)].sort()).toEqual(own);
  });

  it('list every option of LiteLLMProvider', () => {
    const stray = { baseUrl: 'http://localhost/v1', model: 'm', stray: 1 };
    const listed = firstColumn('docs/models.md', /Options/).filter((name) => !/^[A-Z_]+$/.test(name));
    expect([...listed].sort()).toEqual(knownOptions(() => new LiteLLMProvider(stray)));
  });

  it('list every option of an A2A request handler', () => {
    const stray = () => Reflect.apply(a2aRequestHandler, undefined, [{ stray: 1 }]);
    expect([...firstColumn('docs/a2a.md', /A server of your own/)].sort()).toEqual(knownOptions(stray));
  });

  it('list every limit of what callers send, with its default', () => {
    const rows = /^\| `limits` .*\n.*\n/m.exec(textOf('docs/a2a.md'))?.[0] ?? '';
    const inWords = (bytes: number) => (bytes >= 2 ** 30 ? `${bytes / 2 ** 30} GiB` : `${bytes / 2 ** 20} MiB`);
    for (const [name, value] of Object.entries(defaultLimits)) {
      expect(rows).toContain(`\`${name}\``);
      expect(rows).toMatch(name.endsWith('Bytes') ? inWords(value) : value.toLocaleString('en-US'));
    }
  });

  it('list every option of a remote agent that an agent does not have', () => {
    const known = knownOptions(() => Reflect.apply(resolveRemote, undefined, [{ stray: 1 }]));
    const listed = firstColumn('docs/a2a.md', /Ask agents of other servers/);
    const ofAgents = knownOptions(() => Reflect.apply(agent, undefined, [{ stray: 1 }]));
    const own = known.filter((name) => !ofAgents.includes(name));
    expect([...listed].sort()).toEqual([...own, 'name', 'description'].sort());
  });

  it('list every option of AISDKProvider', () => {
    const part = textOf('docs/models.md').split('| option of `AISDKProvider`')[1]?.split(/^\n/m)[0] ?? '';
    const listed = [...part.matchAll(/^\| `(\w+)`/gm)].map((match) => match[1]);
    const stray = () => Reflect.construct(AISDKProvider, [{ stray: 1 }]);
    expect(listed.sort()).toEqual(knownOptions(stray));
  });

  it.each<[string, (options: object) => unknown]>([
    ['Old tool outputs', toolOutputCache],
    ['Compaction', compactHistory],
    ['Window', windowHistory],
  ])('list every option of context management: %s', (heading, make) => {
    const part = textOf('docs/extensions.md').split(`### ${heading}\n`)[1]?.split(/^##/m)[0] ?? '';
    const listed = [...part.matchAll(/^\| `(\w+)` +\|/gm)].map(([, name]) => name ?? '');
    expect(listed.sort()).toEqual(knownOptions(() => make({ stray: 1 })));
  });

  it('list every option of structured output', () => {
    const stray = { schema: { type: 'object' }, stray: 1 };
    expect([...firstColumn('docs/extensions.md', /Output options/)].sort()).toEqual(
      knownOptions(() => Reflect.apply(structuredOutput, undefined, [stray])),
    );
  });

  it('list every option of S3ArtifactStore', () => {
    const listed = firstColumn('docs/stores.md', /^Artifacts in S3/);
    expect([...listed].sort()).toEqual(
      knownOptions(() => Reflect.construct(S3ArtifactStore, [{ bucket: 'b', stray: 1 }])),
    );
  });

  it('list every policy of a tool', () => {
    const stray = { name: 't', description: 'd', parameters: { type: 'object' }, execute: () => '', stray: 1 };
    const policies = knownOptions(() => tool(stray)).filter(
      (option) => !['name', 'description', 'parameters', 'jsonSchema', 'execute', 'executeBatch'].includes(option),
    );
    expect([...firstColumn('docs/tool-integration.md', /Policies/)].sort()).toEqual(policies);
  });
});

describe('docs/concepts.md', () => {
  it('lists every kind of event', () => {
    const listed = firstColumn('docs/concepts.md', /^Events/);
    expect([...listed].sort()).toEqual([...Object.keys(eventKinds), 'internal:x.<extension>'].sort());
  });

  it('lists every type of record', () => {
    const listed = firstColumn('docs/concepts.md', /^Records/).filter((type) => !type.startsWith('x.'));
    expect([...new Set(listed)].filter((type) => type !== 'branch').sort()).toEqual(
      Object.keys(rows)
        .filter((type) => type !== 'x.')
        .sort(),
    );
  });
});

describe('docs/extensions.md', () => {
  it('lists every hook', () => {
    expect(firstColumn('docs/extensions.md', /^Hooks/)).toEqual(hookNames);
  });

  it('lists every option of limits', () => {
    const options = knownOptions(() => Reflect.apply(limits, undefined, [{ stray: 1 }]));
    expect([...firstColumn('docs/extensions.md', /^Limits/)].sort()).toEqual(options);
  });
});

describe('docs/models.md', () => {
  it('names every vendor of createProvider', () => {
    const named = [...textOf('docs/models.md').matchAll(/^\| `([\w-]+):…`/gm)].map(([, name]) => name);
    expect(named).toEqual([...vendorNames]);
  });

  const policies = {
    cacheResponses,
    circuitBreaker,
    fallback,
    hedge,
    limitConcurrency,
    rateLimit,
    recordResponses,
    replayResponses,
    retry,
    timeout,
  };

  it.each(Object.entries(policies))('lists every option of %s', (name, policy) => {
    expect([...firstColumn('docs/models.md', new RegExp(`^${name}$`))].sort()).toEqual(
      knownOptions(() => Reflect.apply(policy, undefined, [{ stray: 1 }])),
    );
  });
});

describe('docs/mcp.md', () => {
  const server = (options: object) => () => Reflect.apply(mcpTools, undefined, [{ servers: { s: options } }]);
  const ofServers = [server({ command: 'c', stray: 1 }), server({ url: 'http://h', stray: 1 })].flatMap(knownOptions);

  it.each<[string, readonly string[]]>([
    ['mcpTools', knownOptions(() => Reflect.apply(mcpTools, undefined, [{ stray: 1 }]))],
    ['a server', [...new Set(ofServers)].sort()],
    ['mcpServer', knownOptions(() => Reflect.apply(mcpServer, undefined, [{ stray: 1 }]))],
    ['listen', knownOptions(() => Reflect.apply(checkListening, undefined, [{ stray: 1 }]))],
  ])('lists every option of %s', (owner, options) => {
    expect([...firstColumn('docs/mcp.md', new RegExp(`^Options of ${owner}$`))].sort()).toEqual(options);
  });
});

describe('docs/deployment.md', () => {
  const store = { claim() {} };
  const options = (given: object) => () => Reflect.apply(assertServerOptions, undefined, [given]);
  const served = { agent: agent({ provider: scriptedLLM([]), taskStateStore: new InMemoryStateStore() }) };

  it.each<[string, readonly string[]]>([
    ['a2aServer', knownOptions(options({ stray: 1 }))],
    ['push', knownOptions(options({ ...served, push: { store, stray: 1 } }))],
  ])('lists every option of %s', (owner, names) => {
    expect([...firstColumn('docs/deployment.md', new RegExp(`^Options of ${owner}$`))].sort()).toEqual(names);
  });
});

describe('docs/command-line.md', () => {
  it.each(['run', 'demo', 'model', 'serve', 'worker'])(
    'lists every flag of millrace %s, as --help says them',
    async (command) => {
      const { stdout } = await runInProcess([command, '--help']);
      const flags = [...stdout.matchAll(/^ {2}(?:-h, )?(--[\w-]+(?: <\w+>)?)/gm)].map((match) => match[1]);
      const listed = firstColumn('docs/command-line.md', new RegExp(`millrace ${command}`));
      expect([...listed, '--help'].sort()).toEqual(flags.sort());
    },
  );

  it('lists every command, as --help says them', async () => {
    const { stdout } = await runInProcess(['--help']);
    const commands = [...stdout.matchAll(/^ {2}(\w+)(?: \[options\])?(?: [<[]| {2})/gm)].map((match) => match[1]);
    const table = textOf('docs/command-line.md').split('\n## ')[0] ?? '';
    const listed = [...table.matchAll(/^\| \[(`.*?`)\]/gm)].flatMap(([, cell = '']) => cell.match(/\w+/g) ?? []);
    expect([...listed, 'help'].sort()).toEqual(commands.sort());
  });

  it('lists the flags of millrace mcp that run does not have', async () => {
    const [own, run] = await Promise.all([runInProcess(['mcp', '--help']), runInProcess(['run', '--help'])]);
    const flagsOf = (help: string) => [...help.matchAll(/^ {2}(--[\w-]+(?: <\w+>)?)/gm)].map((match) => match[1]);
    const only = flagsOf(own.stdout).filter((flag) => !flagsOf(run.stdout).includes(flag));
    expect([...firstColumn('docs/command-line.md', /millrace mcp/)].sort()).toEqual(only.sort());
  });

  it('names every flag of millrace chat', async () => {
    const { stdout } = await runInProcess(['chat', '--help']);
    const chat = /^## millrace chat$[\s\S]*?^## /m.exec(textOf('docs/command-line.md'))?.[0] ?? '';
    const flags = [...stdout.matchAll(/^ {2}(--[\w-]+)/gm)].map((match) => match[1]);
    expect([...chat.matchAll(/`(--[\w-]+)`/g)].map((match) => match[1]).sort()).toEqual(flags.sort());
  });
});
