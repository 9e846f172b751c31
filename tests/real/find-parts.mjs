// What `npm run test:e2e` runs against, and what it has to do without. Installs the LiteLLM proxy and the Python SDKs of A2A and MCP where none is given.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import buildEntries from '../build-entries.mjs';
import { findParts, localParts, output } from './local-parts.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const installMinutes = 12;

/** jest's global setup of `npm run test:e2e`. */
export default async function findAllParts() {
  await buildEntries();
  await findParts(parts);
}

const parts = {
  ...localParts,
  swift: async () => {
    const script = 'import swift.common.middleware.s3api; print(swift.__version__)';
    await output('memcached', '-V');
    return { version: await output('/usr/bin/python3', '-c', script) };
  },
  chromium: async () => ({ version: /[\d.]+/.exec(await output('chromium', '--version'))?.[0] }),
  openssl: async () => ({ version: /[\d.]+/.exec(await output('openssl', 'version'))?.[0] }),
  litellm: findLiteLLM,
  jaeger: findJaeger,
  a2a: () => packageOf('@a2a-js/sdk'),
  'a2a-python-1': () => findPythonSdk('1.3.0', process.env.A2A_PYTHON_1),
  'a2a-python-0.3': () => findPythonSdk('0.3.26', process.env.A2A_PYTHON_03),
  mcp: () => packageOf('@modelcontextprotocol/server-everything'),
  'mcp-conformance': findConformance,
  'mcp-python': findPythonMcp,
  'ai-sdk-7': findAiSdk7,
  'front-ends': findFrontEnds,
  'openai-clients': findOpenAIClients,
  'openai-agents-python': findOpenAIAgentsPython,
  vendors: findVendors,
  bun: () => findRuntime('bun'),
  deno: () => findRuntime('deno'),
};

/** The one that is installed, else that of the package. */
async function findRuntime(name) {
  const found = async (bin) => ({ version: /\d+\.\d+\.\d+/.exec(await output(bin, '--version'))?.[0], bin });
  return found(name).catch(async () => {
    await runtimes();
    return found(join(root, 'tests/runtimes/node_modules/.bin', name));
  });
}

/** Both come with one installation. */
let installing;
const runtimes = () => {
  installing ??= besides('tests/runtimes', 'deno');
  return installing;
};

async function findLiteLLM() {
  const bin = process.env.LITELLM_BIN ?? (await installLiteLLM());
  const { LITELLM_MODE: _, ...env } = process.env;
  const { stdout, stderr } = await run(bin, ['--version'], {
    env: { ...env, LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
  });
  return { version: /Version = (\S+)/.exec(stdout + stderr)?.[1], bin };
}

/** The version that docker-compose.yml names. */
async function installLiteLLM() {
  const compose = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  const version = /litellm:v(\d+\.\d+\.\d+)/.exec(compose)?.[1];
  const bin = await installed(`litellm-${version}`, [`litellm[proxy]==${version}`], 'LITELLM_BIN');
  return join(bin, 'litellm');
}

/** `python`: the interpreter of an environment that has the SDK with these extras, and uvicorn. */
async function findPythonSdk(version, python) {
  const packages = [`a2a-sdk[http-server,grpc,signing]==${version}`, 'uvicorn'];
  const given = version.startsWith('1.') ? 'A2A_PYTHON_1' : 'A2A_PYTHON_03';
  const bin = python ?? join(await installed(`a2a-sdk-all-${version}`, packages, given), 'python');
  const script = "import grpc, jwt, uvicorn; from importlib.metadata import version; print(version('a2a-sdk'))";
  return { version: await output(bin, '-c', script), bin };
}

/** `bin`: the interpreter of an environment that has the official SDK and fastmcp, which is made with it. */
async function findPythonMcp() {
  const packages = ['mcp==2.3.0', 'fastmcp==4.2.3'];
  const bin =
    process.env.MCP_PYTHON ?? join(await installed('mcp-2.3.0-fastmcp-4.2.3', packages, 'MCP_PYTHON'), 'python');
  const script = "from importlib.metadata import version; print(version('mcp') + ', fastmcp ' + version('fastmcp'))";
  return { version: await output(bin, '-c', script), bin };
}

async function findConformance() {
  const { version, folder } = await forNode22('tests/conformance', '@modelcontextprotocol/conformance');
  return { version, bin: join(folder, 'dist/index.js') };
}

async function findAiSdk7() {
  // The one that was added last: an installation from before has to be completed.
  await besides('tests/ai-sdk-7', '@ai-sdk/openai');
  const { version } = await forNode22('tests/ai-sdk-7', '@ai-sdk/provider');
  return { version };
}

/** A package that needs a newer Node.js than we do. */
async function forNode22(folder, name) {
  const found = await besides(folder, name);
  await output('npx', '-y', '-p', 'node@22', 'node', '--version');
  return found;
}

/** Clients of front ends, which run on this Node.js too, and are large. */
async function findFrontEnds() {
  const { version } = await besides('tests/front-ends', 'ai');
  return { version };
}

/** The clients of `millrace/openai`. */
async function findOpenAIClients() {
  // The one that was added last: an installation from before has to be completed.
  await besides('tests/openai-clients', '@langchain/openai');
  const { version } = await besides('tests/openai-clients', 'openai');
  return { version };
}

/** `bin`: the interpreter of an environment that has the OpenAI Agents SDK. */
async function findOpenAIAgentsPython() {
  const packages = ['openai-agents==0.24.0'];
  const given = process.env.OPENAI_AGENTS_PYTHON;
  const bin = given ?? join(await installed('openai-agents-0.24.0', packages, 'OPENAI_AGENTS_PYTHON'), 'python');
  const script = "from importlib.metadata import version; print(version('openai-agents'))";
  return { version: await output(bin, '-c', script), bin };
}

async function findVendors() {
  await besides('tests/vendors', 'typescript-5.9');
  const { version } = await besides('tests/vendors', '@ai-sdk/mistral');
  return { version: `mistral ${version}` };
}

/** A package that is none of ours, as it declares a newer Node.js, or is large: `folder` has a package.json for it. */
async function besides(folder, name) {
  const path = join(root, folder);
  const found = join(path, 'node_modules', name);
  if (!existsSync(found)) {
    const flags = ['--no-package-lock', '--no-audit', '--no-fund', '--silent'];
    await run('npm', ['install', '--prefix', path, ...flags], { cwd: path, timeout: 180_000 });
  }
  return { version: JSON.parse(readFileSync(join(found, 'package.json'), 'utf8')).version, folder: found };
}

/** The programs of packages of PyPI, in a virtual environment that the next run finds again. */
async function installed(name, packages, variable) {
  const folder = join(root, 'node_modules/.cache', name);
  const whole = join(folder, 'whole');
  if (!existsSync(whole)) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(dirname(folder), { recursive: true });
    process.stderr.write(`Installing ${packages.join(' ')} from PyPI; give ${variable} to use one that is there.\n`);
    await run('python3', ['-m', 'venv', folder], { timeout: 60_000 });
    const install = ['install', '--quiet', '--disable-pip-version-check', ...packages];
    await run(join(folder, 'bin/pip'), install, { timeout: installMinutes * 60_000, killSignal: 'SIGKILL' });
    writeFileSync(whole, '');
  }
  return join(folder, 'bin');
}

/** One that runs at JAEGER_URL, its UI's address; else a binary, which the tests start. */
async function findJaeger() {
  const { JAEGER_URL: url } = process.env;
  if (url === undefined) return { version: /v?([\d.]+)/.exec(await output('jaeger', 'version'))?.[1], bin: 'jaeger' };
  const answer = await fetch(new URL('/api/v3/services', url));
  if (!answer.ok) throw new Error(`${url} answers ${answer.status}`);
  return { version: 'at JAEGER_URL', url };
}

function packageOf(name) {
  return { version: JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')).version };
}
