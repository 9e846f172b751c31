import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore, tool } from 'millrace';
import { openAIHandler } from 'millrace/openai';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import ts from 'typescript';
import { dataOf } from '../ui/frames.ts';
import { describeReal } from './real-part.ts';

const plain = { description: 'A tool.', parameters: { type: 'object' } } as const;
const tools = [
  tool({ ...plain, name: 'look', execute: () => 'seen' }),
  tool({ ...plain, name: 'broken', execute: () => Promise.reject(new Error('SECRET')) }),
  tool({ ...plain, name: 'refund', needsApproval: true, execute: () => 'refunded' }),
];

/** What the turns of the rows do. */
const turns: Readonly<Record<string, readonly ScriptedLLMStep[]>> = {
  'completes after calls, one of which fails': [
    { reasoning: 'Hm.', text: 'Let me look.', toolCalls: [{ name: 'look' }, { name: 'broken' }] },
    { text: ['Do', 'ne.'] },
  ],
  'asks for an approval': [{ text: 'I will.', toolCalls: [{ name: 'refund' }] }],
  'is cut off': [{ text: 'So far', finishReason: 'length' }],
  fails: [{ error: new Error('SECRET') }],
};

/** The codes of the engine are more than those of OpenAI, which its type closes. */
const withTheirCode = (json: string) => json.replaceAll('"code":"PROVIDER_FAILED"', '"code":"server_error"');

describeReal(['openai-clients'], 'answers of millrace/openai by the types of the openai package', () => {
  const parent = 'tests/openai-clients/node_modules/.cache';
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, 'types-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function answerOf(path: string, body: object, steps: readonly ScriptedLLMStep[]): Promise<string> {
    const store = new InMemoryStateStore();
    const model = agent({
      id: 'assistant',
      provider: scriptedLLM([...steps]),
      taskStateStore: store,
      tools,
      retry: null,
    });
    const handler = openAIHandler({
      agents: [model],
      scopeOf: () => 'ann',
      tools: 'full',
      reasoning: path === 'responses',
    });
    try {
      const headers = { 'content-type': 'application/json' };
      const request = { method: 'POST', headers, body: JSON.stringify({ model: 'assistant', ...body }) };
      const text = await (await handler(new Request(`http://localhost/v1/${path}`, request))).text();
      return withTheirCode(
        text.startsWith('{')
          ? text
          : `[${dataOf(text)
              .filter((data) => data !== '[DONE]')
              .join(',')}]`,
      );
    } finally {
      handler.close();
    }
  }

  function problemsOf(source: string): readonly string[] {
    const path = join(folder, 'answers.ts');
    writeFileSync(path, source);
    const options: ts.CompilerOptions = {
      ...{ strict: true, noEmit: true, skipLibCheck: true, exactOptionalPropertyTypes: false, types: ['node'] },
      ...{
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.NodeNext,
        moduleDetection: ts.ModuleDetectionKind.Force,
      },
    };
    const program = ts.createProgram([path], options);
    return ts
      .getPreEmitDiagnostics(program)
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
  }

  it('R-37 each answer, whole and streamed, has the declared type', async () => {
    const messages = [{ role: 'user', content: 'x' }];
    const lines = [
      "import type OpenAI from 'openai';",
      // The client adds output_text; OpenAI sends store, which the type does not have.
      "type Whole = Omit<OpenAI.Responses.Response, 'output_text'> & { store: boolean };",
      "type Event<T = OpenAI.Responses.ResponseStreamEvent> = T extends { response: unknown } ? Omit<T, 'response'> & { response: Whole } : T;",
      'type Refused = { error: { message: string; type: string; param: string | null; code: string | null } };',
      'type Chunk = OpenAI.ChatCompletionChunk | Refused;',
    ];
    for (const steps of Object.values(turns)) {
      const ended = await answerOf('responses', { input: 'x', metadata: { a: 'b' } }, steps);
      const events = await answerOf('responses', { input: 'x', stream: true }, steps);
      const completed = await answerOf('chat/completions', { messages }, steps);
      const stream_options = { include_usage: true };
      const chunks = await answerOf('chat/completions', { messages, stream: true, stream_options }, steps);
      lines.push(`(${ended}) satisfies Whole;`, `(${events}) satisfies Event[];`);
      lines.push(`(${completed}) satisfies OpenAI.ChatCompletion | Refused;`, `(${chunks}) satisfies Chunk[];`);
    }
    expect(lines.join('\n')).not.toContain('SECRET');
    expect(problemsOf(lines.join('\n'))).toEqual([]);
    const wrong = lines.join('\n').replaceAll('"mcp_tool_execution_error"', '"another"');
    expect(problemsOf(wrong).join('\n')).toContain('another');
  });
});
