import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { type CodeBlock, codeBlocksIn, pages, root, textOf } from './markdown.ts';

/** What a block without imports takes for granted. */
const given = `
import { AgentLoop, AgentLoopError, ClientToolProvider, contentParts, LocalToolProvider, tool, TurnError } from 'millrace';
import type { Extension, LLMProvider, Message, TaskStateStore, ToolProvider, Turn } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { recordSpans } from 'millrace/testing';
import { z } from 'zod';
declare const loop: AgentLoop;
declare const turn: Turn;
declare const messages: readonly Message[];
declare const store: TaskStateStore;
declare const llmProvider: LLMProvider;
declare const toolProviders: readonly ToolProvider[];
declare const bank: {
  pay(invoice: string, key: string): Promise<string>;
  find(key: string): Promise<{ readonly receipt: string } | undefined>;
  refund(order: string, cents: number, key: string): Promise<string>;
};
declare const airline: { book(to: string, seat: string): Promise<string> };
export async function block(): Promise<void> {
`;

interface Sample {
  readonly page: string;
  readonly block: CodeBlock;
  /** Where the block stands in for a file: within the package, so that its own name resolves. */
  readonly file: string;
  readonly source: string;
}

const samples: readonly Sample[] = pages.flatMap((page) =>
  codeBlocksIn(textOf(page))
    .filter(({ language }) => language === 'ts')
    .map((block) => {
      const source = /^import /m.test(block.code) ? block.code : `${given}${block.code}}\n`;
      return { page, block, source, file: join(root, `${page.replace(/\W/g, '-')}-${block.line}.ts`) };
    }),
);

/** What the compiler says of each sample. */
function complaints(): ReadonlyMap<string, readonly string[]> {
  const config = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root);
  const sources = new Map(samples.map(({ file, source }) => [file, source]));
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (file) => sources.has(file) || fileExists(file);
  host.readFile = (file) => sources.get(file) ?? readFile(file);
  const program = ts.createProgram([...sources.keys()], options, host);
  return new Map(
    samples.map(({ file }) => {
      const source = program.getSourceFile(file);
      const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
      return [file, found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))];
    }),
  );
}

describe('the code on the pages', () => {
  let found: ReadonlyMap<string, readonly string[]>;

  beforeAll(() => {
    found = complaints();
  }, 60_000);

  it.each(samples.map((sample) => ({ ...sample, line: sample.block.line })))('$page:$line compiles', ({ file }) => {
    expect(found.get(file)).toEqual([]);
  });

  it('shows as the smallest program the one that is run', () => {
    const example = readFileSync(join(root, 'examples/smallest.ts'), 'utf8');
    expect(example.trimEnd().split('\n').length).toBeLessThanOrEqual(15);
    expect(codeBlocksIn(textOf('README.md')).map(({ code }) => code)).toContain(example);
  });
});
