import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';
import ts from 'typescript';

const root = fileURLToPath(new URL('../..', import.meta.url));
const core = join(root, 'src/core');
const contracts = join(core, 'contracts');

/** Data with more members, although some of them are functions or collections: the state of a turn, its signals, its configuration. */
const data = ['Commit', 'Draft', 'LoopFields', 'ResolvedConfig'];

const isIn = (folder: string, { fileName }: ts.SourceFile) => fileName.startsWith(`${folder}/`);

function programOf(folders: readonly string[] = [core]): ts.Program {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const files = fileNames.filter((file) => folders.some((folder) => file.startsWith(`${folder}/`)));
  return ts.createProgram(files, { ...options, noEmit: true });
}

const partsOf = (type: ts.Type): readonly ts.Type[] => (type.isUnion() ? type.types : [type]);

/** Where a type is declared; its alias counts, since `Pick` and intersections have no declaration of their own. */
function declarationOf(type: ts.Type): ts.SourceFile | undefined {
  return (type.aliasSymbol ?? type.getSymbol())?.declarations?.[0]?.getSourceFile();
}

function isOwn(type: ts.Type): boolean {
  const file = declarationOf(type);
  return file !== undefined && isIn(join(root, 'src'), file);
}

const hasMethods = (type: ts.Type) => type.getProperties().some(({ flags }) => (flags & ts.SymbolFlags.Method) !== 0);

const isFunction = (type: ts.Type) => partsOf(type).some((part) => part.getCallSignatures().length > 0);

interface Found {
  readonly file: string;
  readonly name: string;
  readonly members: readonly string[];
}

/** The types of parameters in the rooms of the core that contain what acts: each is an interface of dependencies, whatever its name. */
function dependencyTypes(program: ts.Program): readonly Found[] {
  const checker = program.getTypeChecker();
  const found = new Map<string, Found>();
  const typesOf = (type: ts.Type) => type.getProperties().map((member) => checker.getTypeOfSymbol(member));
  /** Whether a value of the type does something: a function, an instance of a class, an object with functions. */
  const acts = (type: ts.Type): boolean =>
    isFunction(type) ||
    partsOf(type).some((part) => isOwn(part) && (part.isClass() || hasMethods(part) || typesOf(part).some(isFunction)));
  const add = (file: string, type: ts.Type) => {
    const symbol = type.aliasSymbol ?? type.getSymbol();
    const declared = declarationOf(type);
    const isObject = (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0;
    if (!isObject || type.isClass() || isFunction(type)) return;
    // Mapped types such as `Pick` are declared by TypeScript unless an alias names them.
    const isMapped = symbol?.name === '__type' || type.aliasSymbol !== undefined;
    if (checker.isArrayLikeType(type) || (!isMapped && !isOwn(type)) || (declared && isIn(contracts, declared))) return;
    if (!typesOf(type).some(acts)) return;
    // A type without a name is its text.
    const name = checker.typeToString(type, undefined, ts.TypeFormatFlags.NoTruncation);
    const members = type.getProperties().map((member) => member.name);
    found.set(`${file} ${name}`, { file: relative(core, file), name, members });
  };
  for (const source of program.getSourceFiles()) {
    if (!isIn(core, source) || isIn(contracts, source)) continue;
    const visit = (node: ts.Node): void => {
      if (ts.isParameter(node)) {
        const type = checker.getTypeAtLocation(node);
        for (const part of partsOf(checker.getBaseConstraintOfType(type) ?? type)) add(source.fileName, part);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return [...found.values()];
}

it('K-08 what a function of the core depends on has at most six members', () => {
  const found = dependencyTypes(programOf());
  const places = found.map(({ file, name }) => `${file} ${name}`);
  // The test would find nothing if it looked in the wrong place.
  expect(places).toEqual(
    expect.arrayContaining([
      'hooks/ask-hooks.ts HookDeps',
      'tool-call/tool-plan.ts ToolCallDeps',
      'model-call/call-model.ts ModelCallDeps',
    ]),
  );
  const wide = found.filter(({ members }) => members.length > 6);
  expect([...new Set(wide.map(({ name }) => name))].sort()).toEqual(data);
});

it('K-08 the run of a turn, and what the core needs of the rest of the package, have at most six members', () => {
  const program = programOf();
  const checker = program.getTypeChecker();
  const membersOf = (file: string, name: string) => {
    const source = checker.getSymbolAtLocation(program.getSourceFile(join(core, file)) as ts.Node);
    const exported = checker.getExportsOfModule(source as ts.Symbol).find((each) => each.name === name);
    return checker.getDeclaredTypeOfSymbol(exported as ts.Symbol).getProperties();
  };
  for (const members of [membersOf('turn/run.ts', 'Run'), membersOf('options/index.ts', 'Outside')]) {
    expect(members.length).toBeGreaterThan(0);
    expect(members.length).toBeLessThanOrEqual(6);
  }
});

/** Whether a symbol here is the key of a member, other than one that only marks the instances of a class. */
function isKey({ parent }: ts.Node): boolean {
  if (ts.isElementAccessExpression(parent) || ts.isCallExpression(parent)) return true;
  if (!ts.isComputedPropertyName(parent)) return false;
  const member = parent.parent;
  return !ts.isPropertyDeclaration(member) || member.initializer?.kind !== ts.SyntaxKind.TrueKeyword;
}

it('K-08 no symbol is the key of data in the core, in tasks and in agents', () => {
  const folders = [core, join(root, 'src/tasks'), join(root, 'src/agent')];
  const program = programOf(folders);
  const checker = program.getTypeChecker();
  const marks: string[] = [];
  const keys: string[] = [];
  for (const source of program.getSourceFiles()) {
    if (!folders.some((folder) => isIn(folder, source))) continue;
    const visit = (node: ts.Node): void => {
      const isSymbol =
        ts.isIdentifier(node) && (checker.getTypeAtLocation(node).flags & ts.TypeFlags.UniqueESSymbol) !== 0;
      // `Symbol.iterator` and the others of the language are known to everybody.
      if (isSymbol && !ts.isPropertyAccessExpression(node.parent))
        (isKey(node) ? keys : marks).push(`${relative(root, source.fileName)}: ${node.parent.getText()}`);
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  expect(marks).toContain('src/core/ownership/child-turns.ts: [parentMarker]');
  expect(keys).toEqual([]);
});
