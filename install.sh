#!/bin/bash
# Installs Mailroom on a Debian or Ubuntu machine, upgrades it in place when run again, brings a backup back on a bare
# machine, or takes it off.
#
# Every step checks the machine before it acts, so a run that was cut off is finished by running the script again. A new
# version counts once its server answers. Until then the script keeps the former version, its unit and a backup of the
# data, made while no server ran, and puts them back if the new one fails. `install.sh --help` lists the options.
set -euo pipefail
umask 077
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

readonly user=mailroom unit=mailroom.service
readonly data=/var/lib/mailroom backups=/var/backups/mailroom
readonly config=/etc/mailroom environment=/etc/mailroom/mailroom.env
readonly lib=/usr/local/lib/mailroom command=/usr/local/bin/mailroom unit_file=/etc/systemd/system/mailroom.service
readonly loopback=127.0.0.0/8,::1/128
# State of an unfinished run, for the next one. Only root can read it.
readonly progress=/var/lib/mailroom-install
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

usage() {
  cat <<'END'
install.sh [options]     installs Mailroom, or upgrades it when it is there

What to install (else the executable beside this script, else it is built from the checkout with npm):
  --executable FILE      this executable; nothing is downloaded
  --archive FILE|URL     a release archive (or MAILROOM_ARCHIVE), with
  --sha256 HEX           its checksum (or MAILROOM_SHA256), without which nothing of it is run

Search with Meilisearch, run by the server; kept by later upgrades:
  --meilisearch FILE|URL its executable; from a URL only with
  --meilisearch-sha256 HEX
  --with-meilisearch     that of its release 1.21.0, from GitHub, with the checksum that you found there

A replica of the database by Litestream, run by the server with MAILROOM_REPLICA; kept by later upgrades:
  --litestream FILE      its executable, of version 0.5.18 or a later 0.5

When the machine before is gone; asks for nothing that the backup knows:
  --restore DIR          bring everything back from this folder of backups; mail that waited to be sent is held
  --identity FILE        the private key that opens encrypted backups
  --generation ID        which of the backups in the folder; the newest if left out
  --trusted              check no rows, and keep settings that name programs: nobody else could change the backup
                         --hostname, --tls, --acme-challenge, --acme-email and --behind-proxy, below, change what it was

Of a first installation; asked for where a terminal is there:
  --domain DOMAIN        the domain that gets mail
  --email ADDRESS        your address at that domain
  --name NAME            your name
  --workspace NAME       name of the workspace; the domain if left out
  --hostname HOST        this machine's name in DNS; mail.DOMAIN if left out
  --acme-email ADDRESS   whom the certificate authority may write to; --email if left out
  --tls MODE             acme (the default), self-signed, or files:CERT,KEY
  --acme-challenge HOW   how the authority is convinced: http (port 80, the default), tls-alpn (port 443 alone),
                         dns-hook:/PROGRAM (no port; docs/certificates.md tells more)
  --behind-proxy         ports 80 and 443 belong to a proxy on this machine: the web stays on 127.0.0.1:8025
  --password-stdin       read your password (10 characters or more) from standard input; made up and shown if left out

  --yes                  ask nothing
  --ready-seconds N      how long a version may take until it answers; 120 if left out
  --uninstall            take the program off; data, settings and backups stay
END
}

say() { printf '%s\n' "$*"; }
step() { printf '==> %s\n' "$*"; }
fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}
misuse() {
  printf 'install.sh: %s (--help says what it takes)\n' "$*" >&2
  exit 2
}

# The release for --with-meilisearch, with which Mailroom is tested.
readonly meilisearch_release=https://github.com/meilisearch/meilisearch/releases/download/v1.21.0

executable='' archive=${MAILROOM_ARCHIVE:-} sha256=${MAILROOM_SHA256:-}
domain='' email='' name='' workspace='' hostname='' acme_email='' acme_challenge='' tls=''
restore='' identity='' chosen='' trusted=''
behind_proxy='' password_stdin='' ask=yes ready_seconds=120 uninstall=''
meilisearch='' meilisearch_sha256='' with_meilisearch='' litestream=''
forwarded=()

read_options() {
  while [ $# -gt 0 ]; do
    local taken=2
    case $1 in
      --executable | --archive | --sha256 | --domain | --email | --name | --workspace | --hostname | --acme-email | \
        --acme-challenge | --tls | --ready-seconds | --meilisearch | --meilisearch-sha256 | --litestream | \
        --restore | --identity | --generation)
        [ $# -ge 2 ] || misuse "$1 needs a value"
        ;;
      *) taken=1 ;;
    esac
    case $1 in
      --executable) executable=$2 ;;
      --archive) archive=$2 ;;
      --sha256) sha256=$2 ;;
      --domain) domain=$2 ;;
      --email) email=$2 ;;
      --name) name=$2 ;;
      --workspace) workspace=$2 ;;
      --hostname) hostname=${2,,} ;;
      --acme-email) acme_email=$2 ;;
      --acme-challenge) acme_challenge=$2 ;;
      --tls) tls=$2 ;;
      --ready-seconds) ready_seconds=$2 ;;
      --meilisearch) meilisearch=$2 ;;
      --meilisearch-sha256) meilisearch_sha256=$2 ;;
      --trusted) trusted=yes ;;
      --with-meilisearch) with_meilisearch=yes ;;
      --litestream) litestream=$2 ;;
      --restore) restore=$2 ;;
      --identity) identity=$2 ;;
      --generation) chosen=$2 ;;
      --behind-proxy) behind_proxy=yes ;;
      --password-stdin) password_stdin=yes ;;
      --yes) ask='' ;;
      --uninstall) uninstall=yes ;;
      --help | -h)
        usage
        exit 0
        ;;
      *) misuse "there is no option $1" ;;
    esac
    case $1 in --archive | --sha256) ;; *) forwarded+=("${@:1:taken}") ;; esac
    shift "$taken"
  done
  [[ $ready_seconds =~ ^[1-9][0-9]{0,4}$ ]] || misuse "--ready-seconds takes a number of seconds"
  [ -z "$executable" ] || [ -z "$archive" ] || misuse "give either --executable or --archive"
  [ -z "$with_meilisearch" ] || [ -z "$meilisearch" ] || misuse "give either --meilisearch or --with-meilisearch"
  if [ -n "$with_meilisearch" ]; then meilisearch=$meilisearch_release/$(meilisearch_asset); fi
  case $meilisearch in
    '') [ -z "$meilisearch_sha256" ] || misuse "--meilisearch-sha256 needs --meilisearch or --with-meilisearch" ;;
    http://* | https://*) [ -n "$meilisearch_sha256" ] || misuse "$meilisearch needs --meilisearch-sha256, its checksum" ;;
  esac
  [[ -z $meilisearch_sha256 || $meilisearch_sha256 =~ ^[0-9a-fA-F]{64}$ ]] || misuse "--meilisearch-sha256 takes 64 hexadecimal digits"
  [ -n "$restore" ] || [ -z "$identity$chosen$trusted" ] || misuse "--identity, --generation and --trusted go with --restore"
  [ -z "$restore" ] || [ -z "$domain$email$name$workspace$password_stdin" ] ||
    misuse "--restore brings people and domains back: leave out --domain, --email, --name, --workspace and --password-stdin"
  case $tls in
    '' | acme | self-signed | files:*,*) ;;
    *) misuse "--tls takes acme, self-signed or files:CERT,KEY" ;;
  esac
  case $acme_challenge in
    '' | http | dns-hook:/*) ;;
    tls-alpn) [ -z "$behind_proxy" ] || misuse "--acme-challenge tls-alpn needs port 443, which --behind-proxy leaves to another" ;;
    *) misuse "--acme-challenge takes http, tls-alpn or dns-hook:/PROGRAM" ;;
  esac
}

# The file of a release for this machine.
meilisearch_asset() {
  case $(uname -m) in
    x86_64) echo meilisearch-linux-amd64 ;;
    aarch64) echo meilisearch-linux-aarch64 ;;
    *) misuse "there is no release of Meilisearch for $(uname -m): give --meilisearch" ;;
  esac
}

# --- state of the machine --------------------------------------------------------------------------------------------

check_machine() {
  [ "$(id -u)" = 0 ] || fail "run this as root (sudo $0 …)"
  local like=''
  if [ -r /etc/os-release ]; then like=$(sed -n 's/^ID\(_LIKE\)\{0,1\}="\{0,1\}\([^"]*\)"\{0,1\}$/\2/p' /etc/os-release | tr '\n' ' '); fi
  case " $like " in *' debian '* | *' ubuntu '*) ;; *) fail "this is for Debian and Ubuntu; here is ${like:-an unknown system}" ;; esac
  local needed
  for needed in systemctl useradd setpriv flock sha256sum tar; do
    command -v "$needed" >/dev/null || fail "the program $needed is missing"
  done
}

is_installed() { [ -x "$lib/mailroom" ] && [ -f "$unit_file" ]; }
is_running() { systemctl is-active --quiet "$unit"; }

# The value of a variable in the environment file, or nothing.
setting() {
  [ -r "$environment" ] || return 0
  sed -n "s/^[[:space:]]*$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}[[:space:]]*\$/\1/p" "$environment" | tail -n 1
}

# The sockets that listen on TCP, as lines `PORT INODE`; /proc has them where no tool is installed.
listening() {
  local table local_address state inode
  for table in /proc/net/tcp /proc/net/tcp6; do
    [ -r "$table" ] || continue
    while read -r _ local_address _ state _ _ _ _ _ inode _; do
      if [ "$state" = 0A ]; then echo "$((16#${local_address##*:})) $inode"; fi
    done <"$table"
  done
}

# Names the owner of a socket, for people: its systemd service, else its program.
holder_of() {
  local inode=$1 link pid service
  for link in /proc/[0-9]*/fd/*; do
    [ "$(readlink "$link" 2>/dev/null)" = "socket:[$inode]" ] || continue
    pid=${link#/proc/} pid=${pid%%/*}
    service=$(sed -n 's|.*/\([^/]*\.service\)$|\1|p' "/proc/$pid/cgroup" 2>/dev/null | head -n 1)
    if [ -n "$service" ]; then
      echo "$service (systemctl disable --now ${service%.service})"
    else
      echo "$(cat "/proc/$pid/comm") (process $pid)"
    fi
    return
  done
  echo "another program"
}

# Prints the `host:port` settings whose port another program has. Nothing is changed when this fails.
check_ports() {
  local variable port inode taken=() web='' sockets
  sockets=$(listening)
  for variable in MX SUBMISSION SUBMISSIONS IMAP IMAPS HTTP HTTPS; do
    port=$(wanted_listener "$variable")
    port=${port##*:}
    [ "$port" != off ] || continue
    inode=$(awk -v port="$port" '$1 == port { print $2; exit }' <<<"$sockets")
    [ -n "$inode" ] || continue
    taken+=("port $port is taken by $(holder_of "$inode")")
    case $variable in HTTP | HTTPS) web=yes ;; esac
  done
  [ ${#taken[@]} -gt 0 ] || return 0
  printf 'install.sh: %s\n' "${taken[@]}" >&2
  if [ -n "$web" ]; then say "install.sh: to keep a web server there and let it pass requests on, give --behind-proxy" >&2; fi
  fail "nothing was changed: free the ports and run this again"
}

# Address of a listener: from the environment file, or as it will be written there.
wanted_listener() {
  if [ -f "$environment" ]; then
    local given
    given=$(setting "MAILROOM_$1")
    echo "${given:-off}"
  else
    new_environment | sed -n "s/^MAILROOM_$1=//p"
  fi
}

# --- what to install -------------------------------------------------------------------------------------------------

scratch=''
# Not in /tmp, which may be mounted noexec.
make_scratch() { if [ -z "$scratch" ]; then scratch=$(mktemp -d /usr/local/lib/mailroom-install.XXXXXX); fi; }

# Downloads a file: download URL FILE
download() {
  step "Downloading $1"
  if command -v curl >/dev/null; then
    curl --fail --location --silent --show-error --output "$2" -- "$1" || fail "the download failed"
  elif command -v wget >/dev/null; then
    wget --quiet --tries=2 --output-document="$2" -- "$1" || fail "the download failed"
  else
    fail "neither curl nor wget is here: download $1 and give its path"
  fi
}

# Checks a release archive's checksum, then runs the script inside it.
run_archive() {
  local file=$archive
  [[ $sha256 =~ ^[0-9a-fA-F]{64}$ ]] || misuse "--archive needs --sha256, the archive's line in SHA256SUMS"
  make_scratch
  case $archive in
    http://* | https://*)
      file=$scratch/archive.tar.gz
      download "$archive" "$file"
      ;;
  esac
  [ -r "$file" ] || fail "$file cannot be read"
  echo "${sha256,,}  $file" | sha256sum --check --status || fail "$archive is not what its checksum says: nothing of it was run"
  mkdir "$scratch/release"
  tar --extract --gzip --file "$file" --directory "$scratch/release" --strip-components=1 --no-same-owner
  [ -r "$scratch/release/install.sh" ] || fail "$archive is no release of Mailroom"
  say "The checksum of the archive is right"
  unset MAILROOM_ARCHIVE MAILROOM_SHA256
  bash "$scratch/release/install.sh" "${forwarded[@]}"
}

# Sets `executable` to one that runs on this machine.
find_executable() {
  if [ -n "$executable" ]; then
    [ -f "$executable" ] || fail "$executable is not there"
  elif [ -x "$here/mailroom" ]; then
    executable=$here/mailroom
  elif [ -f "$here/package.json" ]; then
    command -v npm >/dev/null || fail "building needs Node 22.19 and npm: install them, or give --executable or --archive"
    step "Building from $here"
    (umask 022 && cd "$here" && npm run --silent build)
    executable=$here/dist/mailroom
  else
    misuse "give --executable or --archive"
  fi
  make_scratch
  install -m 755 "$executable" "$scratch/mailroom"
  version=$("$scratch/mailroom" version 2>/dev/null) ||
    fail "$executable does not run here: is it for $(uname -m) and this C library?"
}

# Puts Meilisearch into the scratch folder, after checking its checksum and that it runs on this machine.
find_meilisearch() {
  [ -n "$meilisearch" ] || return 0
  local file=$meilisearch
  case $meilisearch in
    http://* | https://*)
      file=$scratch/meilisearch.download
      download "$meilisearch" "$file"
      ;;
  esac
  [ -f "$file" ] || fail "$file is not there"
  if [ -n "$meilisearch_sha256" ]; then
    echo "${meilisearch_sha256,,}  $file" | sha256sum --check --status ||
      fail "$meilisearch is not what its checksum says: nothing of it was run"
  fi
  install -m 755 "$file" "$scratch/meilisearch"
  [[ $("$scratch/meilisearch" --version 2>/dev/null) == meilisearch\ * ]] ||
    fail "$meilisearch is no Meilisearch that runs here: is it for $(uname -m) and this C library?"
}

# The same of Litestream, which says no more than its version.
find_litestream() {
  [ -n "$litestream" ] || return 0
  [ -f "$litestream" ] || fail "$litestream is not there"
  install -m 755 "$litestream" "$scratch/litestream"
  [[ $("$scratch/litestream" version 2>/dev/null) =~ ^v?0\.5\.(1[89]|[2-9][0-9]|[1-9][0-9]{2,})$ ]] ||
    fail "$litestream is no Litestream 0.5.18 or later 0.5 that runs here: is it for $(uname -m)?"
}

ask_for() {
  local variable=$1 question=$2 answer=''
  [ -z "${!variable}" ] || return 0
  if [ -z "$ask" ] || [ -n "$password_stdin" ] || ! [ -t 0 ]; then misuse "--${variable//_/-} is missing"; fi
  while [ -z "$answer" ]; do
    read -r -p "$question: " answer || misuse "--${variable//_/-} is missing"
  done
  printf -v "$variable" '%s' "$answer"
}

is_host() { [[ $1 =~ ^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$ ]]; }

# The questions of a first installation.
ask_what_is_missing() {
  [ -f "$environment" ] && [ -f "$data/mailroom.db" ] && [ ! -f "$progress/wanted" ] && return 0
  # Answers of a run that was cut off.
  if [ -f "$progress/wanted" ] && [ -z "$domain$email$name" ]; then
    { read -r domain && read -r email && read -r name && read -r workspace; } <"$progress/wanted" || true
  fi
  ask_for domain "The domain that gets mail (example.com)"
  domain=${domain,,}
  ask_for email "Your address at $domain"
  ask_for name "Your name"
  is_host "$domain" || misuse "$domain is no domain"
  local at=${email##*@}
  [ "${at,,}" = "$domain" ] || misuse "$email is not at $domain"
  hostname=${hostname:-mail.$domain}
  is_host "$hostname" || misuse "$hostname is no host name"
  [[ ${acme_email:=$email} =~ ^[^[:space:]\"\']+@[^[:space:]\"\']+$ ]] || misuse "$acme_email is no address"
}

new_environment() {
  if [ -n "$restored_environment" ]; then
    printf '%s\n' "$restored_environment"
    return
  fi
  local every=0.0.0.0
  # Both families on one socket, where the machine has both.
  if grep -q . /proc/net/if_inet6 2>/dev/null; then every='[::]'; fi
  cat <<END
# Mailroom's environment. Upgrades keep it; after a change: systemctl restart mailroom
MAILROOM_DATA=$data
MAILROOM_BASE_URL=https://$hostname
MAILROOM_HOSTNAME=$hostname
MAILROOM_MX=$every:25
MAILROOM_SUBMISSION=$every:587
MAILROOM_SUBMISSIONS=$every:465
MAILROOM_IMAP=$every:143
MAILROOM_IMAPS=$every:993
MAILROOM_TLS=${tls:-acme}
END
  if [ "${tls:-acme}" = acme ] && [ -n "$acme_email" ]; then echo "MAILROOM_ACME_EMAIL=$acme_email"; fi
  if [ -n "$acme_challenge" ]; then echo "MAILROOM_ACME_CHALLENGE=$acme_challenge"; fi
  if [ -n "$behind_proxy" ]; then
    printf '%s\n' MAILROOM_HTTP=127.0.0.1:8025 MAILROOM_HTTPS=off "MAILROOM_TRUSTED_PROXIES=$loopback"
  else
    printf '%s\n' "MAILROOM_HTTP=$every:80" "MAILROOM_HTTPS=$every:443"
  fi
}

# --- bringing a backup back ------------------------------------------------------------------------------------------

# Of the executable that is to be installed, as root: it reads the backup, and gives what it makes to the service's user.
of_backup() {
  local options=("$restore")
  if [ -n "$identity" ]; then options+=(--identity "$identity"); fi
  if [ -n "$chosen" ]; then options+=(--generation "$chosen"); fi
  env -i PATH="$PATH" LC_ALL=C MAILROOM_DATA="$data" "$scratch/mailroom" "$@" "${options[@]}"
}

# Refuses what stands in the way, before anything is changed.
check_bare() {
  [ -z "$hostname" ] || is_host "$hostname" || misuse "$hostname is no host name"
  restore=$(realpath -e -- "$restore" 2>/dev/null) || fail "the folder of --restore is not there"
  [ -z "$identity" ] || [ -r "$identity" ] || fail "$identity cannot be read"
  if [ -e "$progress/restore" ] || ! [ -e "$data/mailroom.db" ] || [ -e "$data/restoring" ]; then return; fi
  fail "there is mail in $data, which --restore does not replace. To put it aside first: systemctl stop mailroom; mv $data $data.old"
}

# What the new machine's environment is to be, from the backup, with what the options say in its place. Without one, as
# in backups of earlier versions, it is that of a first installation.
restored_environment=''
learn_environment() {
  local known changed=() line
  known=$(of_backup backup environment) || fail "nothing was changed"
  if [ -f "$environment" ]; then return; fi
  if ! grep -q '^MAILROOM_BASE_URL=' <<<"$known"; then
    hostname=${hostname:-$(sed -n 's/^MAILROOM_HOSTNAME=//p' <<<"$known")}
    is_host "$hostname" || misuse "the backup does not say the machine's name in DNS: give --hostname"
    return
  fi
  if [ -n "$hostname" ]; then changed+=("MAILROOM_BASE_URL=https://$hostname" "MAILROOM_HOSTNAME=$hostname"); fi
  if [ -n "$tls" ]; then changed+=("MAILROOM_TLS=$tls"); fi
  if [ -n "$acme_email" ]; then changed+=("MAILROOM_ACME_EMAIL=$acme_email"); fi
  if [ -n "$acme_challenge" ]; then changed+=("MAILROOM_ACME_CHALLENGE=$acme_challenge"); fi
  if [ -n "$behind_proxy" ]; then
    changed+=(MAILROOM_HTTP=127.0.0.1:8025 MAILROOM_HTTPS=off "MAILROOM_TRUSTED_PROXIES=$loopback")
  fi
  for line in "${changed[@]}"; do known=$(grep -v -e "^${line%%=*}=" -e "^# ${line%%=*}=" <<<"$known" || true); done
  restored_environment=$(
    echo "# Mailroom's environment, from a backup. Upgrades keep it; after a change: systemctl restart mailroom"
    echo "MAILROOM_DATA=$data"
    printf '%s\n' "$known" "${changed[@]}"
  )
}

# $progress/restore exists from before the restore until the server has answered. A restore that was cut off begins anew;
# one that came to its end is not repeated, because mail may have come in since.
bring_all_back() {
  if ! [ -e "$data/mailroom.db" ] || [ -e "$data/restoring" ]; then
    step "Restoring from $restore"
    touch "$progress/restore"
    if is_running; then systemctl stop "$unit"; fi
    if ! of_backup restore ${trusted:+--trusted}; then
      rm -f "$progress/restore"
      fail "nothing was restored, and $data is as empty as it was"
    fi
  fi
  # The server goes on with backups where it may write. Whoever made them up may have linked files of others into them.
  case $restore/ in
    "$backups"/*) find "$backups" -xdev \( -type d -o -type f -links 1 \) -exec chown --no-dereference "$user:$user" {} + ;;
  esac
  put_environment
  step "Putting version $version in place"
  put_program
  step "Starting the server"
  start_and_wait || fail "the server does not answer: run this again when the cause is gone. $why"
  rm -f "$progress/restore"
}

# --- putting it in place ---------------------------------------------------------------------------------------------

# Writes standard input to a file, atomically: write_file FILE MODE GROUP
write_file() {
  local new
  new=$(mktemp "$1.XXXXXX")
  cat >"$new"
  chown "root:$3" "$new"
  chmod "$2" "$new"
  sync "$new"
  mv -f "$new" "$1"
}

make_user_and_folders() {
  local folder
  if ! id -u "$user" >/dev/null 2>&1; then
    step "Making the system user $user"
    useradd --system --user-group --home-dir "$data" --no-create-home --shell /usr/sbin/nologin "$user"
  fi
  for folder in "$data" "$backups"; do
    if [ ! -d "$folder" ]; then install -d -m 700 -o "$user" -g "$user" "$folder"; fi
  done
  install -d -m 750 -o root -g "$user" "$config"
  install -d -m 755 "$lib"
  install -d -m 700 "$progress"
}

put_environment() {
  if [ -f "$environment" ]; then return; fi
  step "Writing $environment"
  new_environment | write_file "$environment" 640 "$user"
}

# The executable, unit and command of this version. The executable is renamed into place, last.
put_program() {
  write_file "$unit_file" 644 root <"$here/packaging/mailroom.service"
  write_file "$command" 755 root <"$here/packaging/mailroom"
  write_file "$lib/mailroom" 755 root <"$scratch/mailroom"
  systemctl daemon-reload
  systemctl enable --quiet "$unit"
}

has_command() { "$lib/mailroom" help 2>/dev/null | grep -q "^  mailroom $1 "; }

# --- the server ------------------------------------------------------------------------------------------------------

# Succeeds when the server's health page answers 200.
answers() {
  local at host port status=''
  at=$(setting MAILROOM_HTTP)
  at=${at:-127.0.0.1:8025}
  # Over HTTPS alone, the check would need the certificate: a running unit counts as an answer.
  if [ "$at" = off ]; then return 0; fi
  host=${at%:*} port=${at##*:}
  case $host in 0.0.0.0) host=127.0.0.1 ;; '[::]') host=::1 ;; esac
  host=${host#[} host=${host%]}
  {
    exec 3<>"/dev/tcp/$host/$port" && printf 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 &&
      IFS= read -r -t 10 status <&3
    exec 3>&-
  } 2>/dev/null || true
  [[ $status == HTTP/1.?\ 200* ]]
}

# Starts the server and waits, some seconds at most, until it answers. It has failed once systemd has given it up.
start_and_wait() {
  local deadline=$((SECONDS + ${1:-$ready_seconds}))
  systemctl reset-failed "$unit" 2>/dev/null || true
  systemctl start "$unit" || return 1
  while [ "$SECONDS" -lt "$deadline" ]; do
    if systemctl is-failed --quiet "$unit"; then return 1; fi
    if is_running && answers; then return 0; fi
    sleep 0.5
  done
  return 1
}

readonly why="Its log: journalctl -u mailroom -n 50"

# Backs up the data; copies only what is new since the last time. Sets `generation`, or fails.
generation=''
back_up() {
  # The backup is made even when files of the data folder are missing. stderr reports them, and the upgrade goes on.
  generation=$("$command" backup "$@" --json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p') || true
  [ -n "$generation" ] || fail "the data could not be backed up: nothing was changed"
}

# What goes back cannot ask for the private key of encrypted backups, so an upgrade keeps one that is not encrypted here
# until the new version has answered.
readonly undo=$backups/undo
is_encrypted() {
  [ "$("$command" settings get backup.recipients --json | sed -n 's/.*"value":"\([^"]*\)".*/\1/p')" != none ] &&
    takes backup --unencrypted
}

# Succeeds if that command of the version in place takes the option.
takes() { "$lib/mailroom" help "$1" 2>/dev/null | grep -q -e "^  $2 "; }

# Restores a backup: bring_back FOLDER GENERATION. Mail may have come in since, so the present data is set aside, never deleted.
bring_back() {
  local aside options=("$1" --generation "$2" --send-queue)
  if [ -d "$data" ]; then
    rmdir --ignore-fail-on-non-empty "$data"
    if [ -d "$data" ]; then mv "$data" "$data.failed-$(date -u +%Y%m%dT%H%M%SZ)"; fi
  fi
  install -d -m 700 -o "$user" -g "$user" "$data"
  # Nothing was sent by a version that did not come up, so what was waiting is not held.
  if takes restore --trusted; then options+=(--trusted); fi
  "$command" restore "${options[@]}" >/dev/null
  # No backup has the keys of sealed secrets. They are made once. Root follows no link that the service may have made.
  for aside in "$data".failed-*; do
    if [ -d "$aside/keys" ]; then
      setpriv --reuid "$user" --regid "$user" --init-groups -- \
        cp --archive --no-target-directory "$aside/keys" "$data/keys"
    fi
  done
}

# --- upgrading: keep, swap, wait until ready; or go back -------------------------------------------------------------

# $progress/upgrade holds the former version. It exists, whole, from before the new version is put in place until one
# version has answered.
upgrade() {
  if [ -e "$progress/upgrade/undo" ]; then
    say "An upgrade that failed was not undone to its end"
    roll_back
  elif [ -d "$progress/upgrade" ]; then
    finish_cut_off
    upgrade
    return
  elif cmp -s "$scratch/mailroom" "$lib/mailroom"; then
    step "Version $version is in place already"
    put_program
    start_and_wait || fail "the server does not answer. $why"
    return
  else
    local folder=$backups/upgrades options=() lasting
    step "Backing up"
    back_up "$folder" --keep 3
    lasting=$generation
    if is_encrypted; then
      folder=$undo options=(--unencrypted)
      back_up "$folder" "${options[@]}"
    fi
    # Once more without the server, for what arrived meanwhile. It is short, and senders come again.
    stopped=yes
    systemctl stop "$unit"
    back_up "$folder" --keep 3 "${options[@]}"
    keep_version "$folder"
    if [ "$folder" = "$undo" ]; then generation=$lasting; fi
  fi
  stopped=yes
  step "Putting version $version in place"
  put_program
  start_and_wait || roll_back
  stopped=''
  say "Version $version answers. The data as it was is backup $generation in $backups/upgrades"
  rm -rf "$progress/upgrade" "$undo"
}

# The version in place may have served for long since then. Once it has answered, its data is newer than that backup, so
# the backup is not restored.
finish_cut_off() {
  local kept=$progress/upgrade
  say "An upgrade was cut off"
  if cmp -s "$kept/executable" "$lib/mailroom"; then
    write_file "$unit_file" 644 root <"$kept/unit"
    write_file "$command" 755 root <"$kept/command"
    systemctl daemon-reload
  else
    systemctl daemon-reload
    start_and_wait || roll_back
  fi
  rm -rf "$kept" "$undo"
}

keep_version() {
  local kept=$progress/upgrade.unfinished
  rm -rf "$kept"
  mkdir "$kept"
  cp --archive "$lib/mailroom" "$kept/executable"
  cp --archive "$command" "$kept/command"
  cp --archive "$unit_file" "$kept/unit"
  echo "$generation" >"$kept/generation"
  echo "$1" >"$kept/folder"
  sync --file-system "$kept"
  mv "$kept" "$progress/upgrade"
}

roll_back() {
  local kept=$progress/upgrade
  step "Going back to the version before"
  touch "$kept/undo"
  # From here on nothing starts by itself but what has its own data.
  stopped=''
  systemctl stop "$unit" || true
  write_file "$unit_file" 644 root <"$kept/unit"
  write_file "$command" 755 root <"$kept/command"
  write_file "$lib/mailroom" 755 root <"$kept/executable"
  systemctl daemon-reload
  if [ ! -e "$kept/restored" ]; then
    # An upgrade that an earlier version of this script began names no folder.
    bring_back "$(cat "$kept/folder" 2>/dev/null || echo "$backups/upgrades")" "$(cat "$kept/generation")"
    touch "$kept/restored"
  fi
  # It has been ready before, and nothing is left to go back to: it gets its time.
  start_and_wait 600 || fail "the version before does not answer either, on its own data. $why"
  rm -rf "$kept" "$undo"
  fail "version $version did not come up, and the upgrade was undone: the version before runs, on its data. What the new one wrote is in $data.failed-…. $why"
}

# --- a first installation --------------------------------------------------------------------------------------------

install_first() {
  # Kept until the workspace exists, so that another run asks nothing again.
  if [ -n "$domain" ]; then
    printf '%s\n' "$domain" "$email" "$name" "$workspace" | write_file "$progress/wanted" 600 root
  fi
  step "Putting version $version in place"
  put_program
  # Installed before and taken off since: there is data, but no program to go back to.
  if [ -f "$data/mailroom.db" ] && [ ! -f "$progress/wanted" ]; then back_up "$backups/upgrades"; fi
  set_up
  step "Starting the server"
  start_and_wait || fail "the server does not answer: run this again when the cause is gone. $why"
}

# Makes the workspace, once. The output of `setup` has a key and a password that cannot be printed again, so it is kept,
# readable by root only, until it has been shown.
set_up() {
  local answer=$progress/answer there
  there=$("$command" workspace list --json)
  if [ "$there" = '[]' ]; then
    step "Making the workspace of $domain"
    local arguments=(--domain "$domain" --email "$email" --name "$name")
    if [ -n "$workspace" ]; then arguments+=(--workspace "$workspace"); fi
    if [ -n "$password_stdin" ]; then
      "$command" setup "${arguments[@]}" --password-stdin >"$answer"
    else
      "$command" setup "${arguments[@]}" </dev/null >"$answer"
    fi
  fi
  rm -f "$progress/wanted"
}

# Installs a program beside ours, where the service cannot write. The server uses a new executable after a restart.
put_beside() {
  local name=$1 there=''
  if [ -e "$lib/$name" ]; then there=yes; fi
  if cmp -s "$scratch/$name" "$lib/$name"; then return; fi
  step "Putting $2 in place"
  write_file "$lib/$name" 755 root <"$scratch/$name"
  [ -n "$there" ] || return 0
  stopped=yes
  systemctl stop "$unit"
  start_and_wait || fail "the server does not answer. $why"
  stopped=''
}

turn_on_meilisearch() {
  [ -n "$meilisearch" ] || return 0
  put_beside meilisearch "$("$scratch/meilisearch" --version)"
  "$command" settings set search.meilisearchPath "$lib/meilisearch" >/dev/null
  "$command" settings set search.engine meilisearch >/dev/null
  say "Meilisearch is being filled with the stored mail; until that is done, FTS5 answers searches"
}

place_litestream() {
  [ -n "$litestream" ] || return 0
  put_beside litestream "Litestream $("$scratch/litestream" version)"
  "$command" settings set replica.litestreamPath "$lib/litestream" >/dev/null
  grep -q '^MAILROOM_REPLICA=' "$environment" ||
    say "Litestream runs once $environment has MAILROOM_REPLICA and the credentials, after systemctl restart $unit"
}

show_what_is_next() {
  local base host
  if [ -s "$progress/answer" ]; then
    say
    say "Keep these; they are not shown again. Publish the records in the DNS of your domain:"
    say
    cat "$progress/answer"
    rm -f "$progress/answer"
    host=$(setting MAILROOM_HOSTNAME)
    say
    say "Publish A (and AAAA) records of $host with this machine's addresses, too, and have its provider set the reverse (PTR)"
    say "records of these addresses to $host."
  fi
  if has_command doctor; then
    say
    step "What mailroom doctor finds (it names records that are not published yet)"
    "$command" doctor || true
  fi
  base=$(setting MAILROOM_BASE_URL)
  host=$(setting MAILROOM_HOSTNAME)
  say
  say "Mailroom $version runs. The app is at ${base:-its HTTP listener}; \`mailroom help\` lists the commands,"
  say "\`journalctl -u mailroom\` shows the log, and $environment has the environment."
  if [ -n "$restore" ]; then
    show_what_is_left
    return
  fi
  say "Once the DNS records are published, run: mailroom domain verify DOMAIN. Until then the server takes no mail for the"
  say "domain and sends none from it. To try it without DNS: mailroom domain verify DOMAIN --skip-dns"
}

show_what_is_left() {
  say
  say "Everything in the backup is back. What is left to do:"
  say "- Lead ${host:-${base#*//}} to this machine: its A and AAAA records, the reverse names (PTR) of its addresses at the provider, and SPF"
  say "  where it names addresses. Until then mail goes to the machine before; other servers try again for days."
  if [ "$(setting MAILROOM_HTTPS)" = off ]; then
    say "- The web was behind a proxy, and is at $(setting MAILROOM_HTTP) here: set the proxy up on this machine, too."
  fi
  say "- Mail that waited to be sent is held, since it may have gone out after the backup. Look at it with"
  say "  mailroom queue list; mailroom queue cancel ID gives up what was sent; mailroom queue release sends the rest."
  if grep -q ' was not taken over: ' "$environment"; then
    say "- $environment says what could not be taken over:"
    sed -n 's/^# \(.* was not taken over: .*\)/    \1/p' "$environment"
  fi
  say "- Have backups made on this machine, too: mailroom settings get backup.folder"
}

take_off() {
  if [ ! -e "$unit_file" ] && [ ! -e "$lib" ]; then
    say "Mailroom is not installed here"
    return
  fi
  step "Taking Mailroom off"
  if [ -e "$unit_file" ]; then systemctl disable --quiet --now "$unit" || true; fi
  systemctl reset-failed "$unit" 2>/dev/null || true
  rm -f "$unit_file" "$command"
  rm -rf "$lib"
  systemctl daemon-reload
  say "Kept: the data in $data, the environment in $environment, backups in $backups, the user $user."
  say "Installing again goes on with them. To delete them for good:"
  say "  rm -rf $data $config $backups $progress && userdel $user"
}

stopped=''
tidy() {
  local code=$?
  trap - EXIT INT TERM HUP
  if [ -n "$scratch" ]; then rm -rf "$scratch"; fi
  # Cut off while the server was stopped: whichever version is in place runs until this is run again.
  if [ -n "$stopped" ]; then systemctl start "$unit" || true; fi
  if [ "$code" -gt 128 ]; then say "install.sh: cut off; run it again to finish" >&2; fi
  exit "$code"
}

main() {
  read_options "$@"
  check_machine
  trap tidy EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  if [ -n "$archive" ] && [ -z "$uninstall" ]; then
    run_archive
    return
  fi
  exec 9>/run/mailroom-install.lock
  flock --nonblock 9 || fail "another install.sh is at work"
  if [ -n "$uninstall" ]; then
    take_off
    return
  fi
  if [ -n "$restore" ]; then
    check_bare
  elif [ -e "$progress/restore" ]; then
    fail "a restore was cut off here: run this again with --restore DIR to finish it (or rm $progress/restore to give it up)"
  else
    ask_what_is_missing
  fi
  find_executable
  find_meilisearch
  find_litestream
  if [ -n "$restore" ]; then learn_environment; fi
  is_running || check_ports
  make_user_and_folders
  if [ -n "$restore" ]; then
    bring_all_back
    turn_on_meilisearch
    place_litestream
    show_what_is_next
    return
  fi
  put_environment
  if is_installed && [ -f "$data/mailroom.db" ] && [ ! -f "$progress/wanted" ]; then upgrade; else install_first; fi
  turn_on_meilisearch
  place_litestream
  show_what_is_next
}

main "$@"
