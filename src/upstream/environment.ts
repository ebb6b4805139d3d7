/** Variables of the host that a child gets by name; documented in docs/architecture.md. */
const allowedNames = new Set(
  `HOME PATH USER LOGNAME SHELL TERM HOSTNAME LANG LANGUAGE TZ PWD
  DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS
  HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy
  SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS
  DEBUG DEBUG_FILE DEBUG_COLORS LD_LIBRARY_PATH DYLD_LIBRARY_PATH
  CHROME_DEVEL_SANDBOX NODE_COMPILE_CACHE
  SYSTEMROOT WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA USERPROFILE USERNAME USERDOMAIN HOMEDRIVE HOMEPATH
  PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 PROGRAMDATA ALLUSERSPROFILE COMMONPROGRAMFILES SYSTEMDRIVE OS
  PROCESSOR_ARCHITECTURE NUMBER_OF_PROCESSORS`.split(/\s+/),
);
const allowedPrefixes = [
  'LC_',
  'XDG_',
  'FONTCONFIG_',
  'PLAYWRIGHT_',
  'PWTEST_',
  'PWMCP_',
  'PW_',
  'LIBGL_',
  'MESA_',
  'GTK_',
  'QT_',
];

/** What makes a child's environment. */
export interface EnvironmentParts {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names that the operator adds (`--child-env`). */
  readonly added: readonly string[];
  /** Names of upstream's own variables that the bridge sets by flag instead. */
  readonly owned: readonly string[];
  /** The child's own temporary folder; also the mark by which its processes are found. */
  readonly tempDir: string;
  /** True on Windows, where the case of a variable's name does not count. */
  readonly isCaseless: boolean;
  /** Values that win over everything, e.g. a licence key that the browser needs. */
  readonly extra: Readonly<Record<string, string>>;
}

function isAllowed(written: string, isCaseless: boolean): boolean {
  const name = isCaseless ? written.toUpperCase() : written;
  return allowedNames.has(name) || allowedPrefixes.some((prefix) => name.startsWith(prefix));
}

/** The environment of a child: an allowlist of the host's, so that its other secrets never reach a browser. */
export function childEnvironment(parts: EnvironmentParts): Record<string, string> {
  const spelled = (name: string): string => (parts.isCaseless ? name.toUpperCase() : name);
  const owned = new Set(parts.owned.map(spelled));
  const added = new Set(parts.added.map(spelled));
  const child: Record<string, string> = {};
  for (const [name, value] of Object.entries(parts.env)) {
    if (value === undefined || owned.has(spelled(name))) continue;
    if (isAllowed(name, parts.isCaseless) || added.has(spelled(name))) child[name] = value;
  }
  return { ...child, TMPDIR: parts.tempDir, TEMP: parts.tempDir, TMP: parts.tempDir, ...parts.extra };
}
