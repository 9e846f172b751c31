import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';
import { agent, retry, timeout } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { scriptedLLM } from 'millrace/testing';
import ts from 'typescript';

const root = fileURLToPath(new URL('..', import.meta.url));
const { exports }: { readonly exports: Readonly<Record<string, string | { readonly default: string }>> } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
);
const entries = Object.values(exports).flatMap((target) =>
  typeof target === 'string' ? [] : [join(root, target.default.replace('./dist', 'src').replace(/\.js$/, '.ts'))],
);

/** The optional properties of exported option types that refuse an explicit `undefined`, and how many there are in all. */
function optionalProperties(): { readonly refusing: readonly string[]; readonly all: number } {
  const config = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root);
  const program = ts.createProgram(entries, options);
  const checker = program.getTypeChecker();
  const [refusing, seen] = [new Set<string>(), new Set<ts.Node>()];
  const look = (node: ts.Node) => {
    if (ts.isPropertySignature(node) && node.questionToken && node.type) {
      seen.add(node);
      if (!takesUndefined(node.type)) {
        const { fileName } = node.getSourceFile();
        refusing.add(`${relative(root, fileName)}: ${node.name.getText()}`);
      }
    }
    ts.forEachChild(node, look);
  };
  for (const entry of entries) {
    const module = program.getSourceFile(entry);
    const symbol = module && checker.getSymbolAtLocation(module);
    for (const exported of symbol ? checker.getExportsOfModule(symbol) : []) {
      if (!/(Options|Settings|Config)$/.test(exported.name)) continue;
      const aliased = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      // Records say what a turn began with: nobody gives them as an option.
      if (aliased.declarations?.some((each) => each.getSourceFile().fileName.includes('/core/journal/'))) continue;
      for (const declared of aliased.declarations ?? [])
        if (ts.isInterfaceDeclaration(declared) || ts.isTypeAliasDeclaration(declared)) look(declared);
      // Those that it extends or picks from another type.
      for (const property of checker.getDeclaredTypeOfSymbol(aliased).getProperties())
        for (const declared of property.declarations ?? [])
          if (declared.getSourceFile().fileName.startsWith(join(root, 'src'))) look(declared);
    }
  }
  return { refusing: [...refusing], all: seen.size };
}

function takesUndefined(type: ts.TypeNode): boolean {
  const parts = ts.isUnionTypeNode(type) ? [...type.types] : [type];
  return parts.some(
    ({ kind }) =>
      kind === ts.SyntaxKind.UndefinedKeyword ||
      kind === ts.SyntaxKind.UnknownKeyword ||
      kind === ts.SyntaxKind.NeverKeyword,
  );
}

it('H-45 every option that may be left out may be undefined', () => {
  const { refusing, all } = optionalProperties();
  expect(refusing).toEqual([]);
  expect(all).toBeGreaterThan(300);
});

it('H-45 an undefined option counts as left out', async () => {
  const { MILLRACE_NO_SUCH_KEY: apiKey } = process.env;
  expect(() => new LiteLLMProvider({ baseUrl: 'http://127.0.0.1:1/v1', model: 'demo', apiKey })).not.toThrow();
  const provider = retry({ maxRetries: undefined, clock: undefined })(
    timeout({ totalMs: 1_000, firstChunkMs: undefined })(scriptedLLM([{ text: 'Hi.' }])),
  );
  const ada = agent({
    provider,
    model: undefined,
    temperature: undefined,
    tools: undefined,
    retry: undefined,
    output: undefined,
    systemPrompt: undefined,
    maxIterations: undefined,
    metadata: undefined,
    extensions: undefined,
    contextManagement: undefined,
    busy: undefined,
    clock: undefined,
    logger: undefined,
  });
  expect((await ada.run('Hello', { taskId: undefined, metadata: undefined, signal: undefined })).text).toBe('Hi.');
  await ada.close();
});
