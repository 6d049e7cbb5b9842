/**
 * Recognises text that tells only how a message is written: notes for programs without MIME (RFC 2046 §5.1.1), and
 * text parts that say nothing but that the mail needs HTML. docs/mail.md lists the sentences. Linear, in a bounded
 * beginning: any longer text says more.
 */

/** Longest text, in characters, that is compared, with and without its links. */
const LONGEST_WITH_LINKS = 4_000;
const LONGEST = 1_000;

const LINKS = /(?:https?:\/\/|www\.)[^\s<>"]+/gi;
const INVISIBLE = /[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]+/gu;

/** True if a text has a visible character: neither white space, nor one of no width. */
export const hasVisibleCharacter = (text: string): boolean => text.replace(INVISIBLE, "") !== "";

/**
 * True for a text part that counts as absent beside HTML: without visible characters, dashes alone, a note, or
 * nothing but sentences that the mail needs HTML, with or without a link to it.
 */
export function isPlaceholderTextPart(text: string): boolean {
  if (text.length > LONGEST_WITH_LINKS) return !hasVisibleCharacter(text);
  const visible = text.replace(LINKS, " ").replace(INVISIBLE, " ").trim();
  if (/^[\p{Pd}\u2212\s]*$/u.test(visible)) return visible !== "" || !hasVisibleCharacter(text);
  if (visible.length > LONGEST) return false;
  return (isMimeNote(visible) && /mime/i.test(visible)) || saysOnly(foldToLetters(visible), NEEDS_HTML);
}

/** The words in the notes that mailers write; little else can be said with them. */
const NOTE_WORDS = new Set(
  `a able agent all an and any apparently appear are ask be below by can cannot capable client compliant composed consider contain containing
  contains could cryptographically decoding delivery different digitally display does either email e-mail encapsulated encoded encrypted end
  ends epilogue for format formatted formats general handle if ignore ignored in information into is it know legible mail mailer may
  mean means message messages mime mime-capable mime-encapsulated mime-encoded mime-formatted mime-aware mime-compliant multi multi-part
  multipart multipart/alternative multipart/mixed multipart/related multipart/report multipart/signed need nested newer not notification
  of openpgp openpgp/mime or part parts pgp pgp/mime portions preamble probably program properly read reader readers reading
  require resend rfc s/mime see sender separate should signed since smime software some status structure support supported supports
  text than that the then this through to under understand unable unreadable upgrade use used user using utility version view viewer want was we
  which with without you your`.split(/\s+/),
);

/** True if a text says only that a message is in MIME. */
export function isMimeNote(text: string): boolean {
  if (text.length > LONGEST) return false;
  const words = text.toLowerCase().match(/[^\s.,:;!?"'()[\]]+/g) ?? [];
  const isOfNote = (word: string) => NOTE_WORDS.has(word) || /^[=_*-]+$/.test(word) || /^\d{4}$/.test(word);
  return words.every(isOfNote) || saysOnly(foldToLetters(text), IN_MIME);
}

/** Letters that Unicode does not decompose, in another spelling. */
const SPELLED: Readonly<Record<string, string>> = { ı: "i", ł: "l", ø: "o", æ: "ae", ß: "ss" };

/** Lower case, without marks. */
const plain = (text: string): string =>
  text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{M}+/gu, "")
    .replace(/[ıłøæß]/g, (letter) => SPELLED[letter] ?? letter);

/** The letters and digits of a text, without case, marks and spaces. */
const foldToLetters = (text: string): string => plain(text).replace(/[^\p{L}\p{N}]+/gu, "");

/** True if letters are sentences of the list, one after the other, each as long as possible. */
function saysOnly(letters: string, sentences: readonly RegExp[]): boolean {
  let at = 0;
  while (at < letters.length) {
    const from = at;
    for (const sentence of sentences) {
      sentence.lastIndex = from;
      if (sentence.test(letters)) at = Math.max(at, sentence.lastIndex);
    }
    if (at === from) return false;
  }
  return letters !== "";
}

/** Names of alternatives that many sentences have. */
const ALTERNATIVES: Readonly<Record<string, string>> = {
  mail: "(?:emailmessage|mailmessage|e?mail|message|newsletter|mailing)",
  client: "(?:(?:e?mail|message)?(?:client|program|software|reader|application|app|viewer|system|provider|service))",
  capable: "(?:capable|compatible|compliant|enabled|aware|supporting)",
  cannot: "(?:doesnot|doesnt|cannot|cant|isnotableto|isunableto|maynot|isnot|seemsnotto|appearsnotto)",
  view: "(?:view|read|see|display|open|show)",
  browser: "(?:in(?:your|a|the|any)?(?:web|internet)?browser|online|asawebpage|onourwebsite|ontheweb)",
  here: "(?:(?:please)?(?:just)?(?:click|tap|go|visit|follow|use|copy|paste|open)(?:on)?(?:to)?(?:here|to|this|thislink|thelink|thelinkbelow|thefollowinglink|thisurl|thefollowingurl|thisaddress)?(?:below)?)",
};

/**
 * Compiles sentences: each line is a regular expression over letters, in which spaces are left out, `[…]` is optional, and
 * `{name}` one of ALTERNATIVES.
 */
const compileSentences = (lines: string): RegExp[] =>
  lines
    .trim()
    .split("\n")
    .map((line) => {
      const pattern = plain(line).replace(/\s+/g, "").replaceAll("[", "(?:").replaceAll("]", ")?");
      return new RegExp(
        pattern.replace(/\{(\w+)\}/g, (_, name: string) => ALTERNATIVES[name] ?? ""),
        "uy",
      );
    });

/** The note of mailers in their languages, but for English. */
const IN_MIME = compileSentences(`
  dies (ist|war) eine (mehrteilige|multipart) nachricht (im|in) mime format
  dies ist eine nachricht im mime format [mit mehreren teilen]
  (ceci|cest|il sagit) [est] [dun|un] message (multi part|multipartie|multipartite|multivolet|en plusieurs parties) (au|en|de) format mime
  (ceci|cest|il sagit) [est] [dun|un] message (de|au|en) format mime [en|compose de|constitue de] [plusieurs parties]
  (este|esto) es un mensaje (multiparte|multi parte|multipart|de varias partes|de varios componentes|con varias partes) (en|de|con) formato mime
  [questo e un] messaggio (multiparte|multi parte|multipart|in piu parti|composto da piu parti) (in|nel) formato mime
  (esta|isto) e uma mensagem (multiparte|multi partes?|multipart|de varias partes|em varias partes|com varias partes) (em|no) formato mime
  dit is een (meerdelig|multipart) bericht in mime (indeling|formaat|format)
  (detta|det har) ar ett (flerdelat|flerdels|multipart) meddelande i mime format
  (dette|det her) er en (flerdelt|multipart|melding med flere deler|besked med flere dele|meddelelse i flere dele) [besked|meddelelse|melding] i mime format
  tama on moniosainen mime [muotoinen]viesti
  tama on moniosainen viesti mime muodossa
  to jest wieloczesciowa wiadomosc w formacie mime
  (toto|tohle) je (vicedilna|vicecastova|viceslozkova) zprava ve formatu mime
  toto je zprava [ve formatu mime](o vice castech|s vice castmi)[ ve formatu mime]
  ez egy tobb reszes [mime]uzenet[ mime formatumban]
  это (многокомпонентное|составное|многочастное) сообщение в формате mime
  це (багатокомпонентне|складене|багаточастинне) повідомлення (у|в) форматі mime
  bu mime biciminde cok parcali bir (iletidir|mesajdir)
  αυτο ειναι ενα μηνυμα πολλων (μερων|τμηματων) σε μορφη mime
  これは mime 形式の (マルチパート|複数パートの|複数の部分からなる) メッセージです
  (这|這)是 [一?(封|个|個)] [mime 格式的] (多部分|多部份|多段) [mime][格式的] (邮件|郵件|消息|訊息|信件)
  [이것은] mime 형식의 (여러 부분으로 (된|구성된)|다중 파트|멀티파트) (메시지|메일)입니다
`);

/** Sentences that senders write in place of a text: that the mail is HTML, needs it, or is to be read elsewhere. */
const NEEDS_HTML = compileSentences(`
  [unfortunately | it (looks like|seems|appears) [that] | [we are] sorry [but]] your {client} {cannot} [currently|properly] (support|display|show|read|view|render|accept|handle|capable of displaying|able to display|able to read) [viewing|reading] (html [format|formatted|based] [{mail} s?] [content]|{mail} s? (in|using|with) html [format]|this [html] {mail} [format])
  you (are [currently] (using|viewing [this {mail}] (in|with))|have) (a|an) [text only] {client} (that|which) {cannot} (support|display|show|read|view) (html [formatted] [{mail} s?]|this {mail})
  (if you (can|are able to) (see|read)|you are (seeing|reading)) this [text|message] [because|then] [it means [that]] your {client} {cannot} (support|display|show|read|view|render) (html|html [formatted] {mail} s?)
  [please] to {view} (this|the) {mail} [properly|correctly] [please] (use|open it (in|with)|switch to|you (need|will need)) (a|an) html {capable} [{mail}] {client}
  [please] to {view} (this|the) {mail} [properly|correctly] [please] (use|you (need|will need)) (a|an) [modern] {client} (that|which|with) (supports?|can (display|read|show|view)|capable of displaying) html [support|{mail} s?]
  [please] to {view} (this|the) {mail} [please] (enable|turn on|activate|switch on|allow) html [in your {client}]
  (this|the) {mail} (requires|needs|must be (viewed|read) (in|with|using)|is best (viewed|read) (in|with|using)|should be (viewed|read) (in|with|using)) [a|an] html [{capable}] [{mail}] [{client} | browser | viewer | format | support] [to be (viewed|read|displayed) [properly|correctly]]
  (this|the) {mail} (requires|needs) [a|an] {client} (that|which|with|capable of) [supports?|can display|displaying|rendering|reading] html [support|{mail} s?]
  (this|it) is (a|an) (html|html only|html formatted|html based|html format) {mail} [only]
  (this|the) {mail} (is|was|has been) [sent|written|composed|available|formatted|created|designed|only available|sent only] [only] (in|as|for|using|with) [a|an] html [format|only|{mail}|code]
  (this|the) {mail} (contains|has|uses|includes) [only] html [content|formatting|code|only]
  html ({mail}|{mail} only|only|only {mail}|content|version|part)
  (the|this) html (version|part) [of] [this|the {mail}] (is|contains) [attached|below|the (message|content)]
  [please] {view} (this|the) {mail} (in|using|with|as) [a|an|your] html [format|mode|{capable} [{mail}] {client}|viewer]
  [please] {view} (this|the) {mail} (in|using|with) (a|an) [different|modern] {client} (that|which|with) (supports?|can display) html [support]
  [please] {view} [this {mail}] (in|with) html [format|enabled]
  [please] {view} the html (version|part) [of] [this|the] [{mail}] [instead]
  [please] (use|switch to|upgrade to) (a|an) (html {capable} [{mail}] {client}|{client} (that|which|with) (supports?|can display) html [support]) [to {view} (this|the) {mail}]
  [please] (enable|turn on|activate|switch on|allow) html [{mail} s?|viewing|display|support] [in your {client}] [[in order] to {view} (this|the) {mail}]
  [please] {here}? [to|if you want to|in order to] {view} [this|the|it|our] [{mail}] {browser} [{here}]
  {view} (web|online|browser|html) version [{here}]
  (web|online|html) version [{here}]
  [are you] [having] (trouble|problems?|difficult(y|ies)|issues) (viewing|reading|seeing|displaying|with) this {mail} [{here}]
  [if] you (cannot|cant|can not|are unable to|are not able to|have (trouble|problems|difficulty)|are having (trouble|problems|difficulty)) (view|read|see|display)[ing] (this|the) {mail} [properly|correctly] [{here}] [to {view} (it|this {mail}) {browser}]
  if (this|the) {mail} (is not|isnt|does not|doesnt) (displayed|displaying|display|shown|render[ed]) [properly|correctly] [{here}]
  [is] [this] {mail} not (displayed|displaying|rendering|showing) [properly|correctly] [{here}]
  (cant|cannot|can not|unable to) (view|read|see) [this|the] ({mail}|images) [in this {mail}] [properly|correctly] [{here}] [to {view} (it|them|this {mail}) [{browser}]]
  you (need|will need|must have|must use|should use) (a|an) (html {capable} [{mail}] {client}|{client} (that|which|with) (supports?|can display) html [support]) to {view} (this|the) {mail} [properly|correctly]
  (this|the) {mail} (is [intended|meant|designed|written] for|was [intended|meant|designed|written] for) html {capable} [{mail}] {client} s?
  this is the (body|message|version) in plain text for non html {mail} {client} s?
  (the|an) html version of (this|the) {mail} is available [online|here|below|at]
  (there is|(this|the) {mail} has|this is) no [plain]text (version|part|content|alternative|body) [(of|for|in) (this|the) {mail}|available]
  [this {mail} has] [no] [plain]text (version|part|content|alternative|body) [is] (not|un) available
  (this|the) [text](part|version) [of] [this|the] [{mail}] (is|has been|was) [intentionally] [left] (blank|empty)
  (ihr|dein) [e?mail|mail] (client|programm|software|system) (unterstutzt|akzeptiert) [leider] keine? (html [format|mails?|emails?|nachrichten|darstellung]|nachrichten im html format|e?mails im html format)
  (ihr|dein) [e?mail|mail] (client|programm|software|system) kann [leider] (keine html (e?mails|nachrichten|inhalte)|kein html|diese (e?mail|nachricht) nicht) (anzeigen|darstellen|lesen)
  (diese (nachricht|e?mail)|dieser newsletter) (ist|wurde|liegt) [nur] (im|als|in) html [format|e?mail|nachricht] [vor|gesendet|versendet|verschickt|verfasst|erstellt|verfugbar]
  [bitte] (verwenden|benutzen|nutzen) sie [bitte] (ein html fahiges [e?mail] programm|einen html fahigen [e?mail] client) [um diese (nachricht|e?mail) (zu lesen|anzuzeigen|anzusehen)]
  um diese (nachricht|e?mail) (zu lesen|anzuzeigen|anzusehen|korrekt darzustellen) (benotigen|brauchen|verwenden) sie [bitte] (ein html fahiges [e?mail] programm|einen html fahigen [e?mail] client)
  [bitte] (aktivieren|schalten) sie [bitte] [die] html [ansicht|anzeige|darstellung] [ein] [um diese (nachricht|e?mail) (zu lesen|anzuzeigen)]
  (wenn|falls|sollte) [sie] (diese|dieser|diesen|den|der|die) (e?mail|nachricht|newsletter) nicht [richtig|korrekt|einwandfrei|vollstandig] (angezeigt|dargestellt|lesen|lesbar|sehen) [werden] [wird|konnen|ist|kann] [dann] [klicken sie [bitte] (hier|auf (den|diesen|folgenden) link)]
  dies ist eine html (nachricht|e?mail)
  [[diese|diesen|den|die] (e?mail|nachricht|newsletter)] im [web]browser (ansehen|anzeigen|offnen|lesen|betrachten)
  [zur] (online|web|html) (version|ansicht) [ansehen|anzeigen|offnen]
  votre [logiciel|client|programme|application] [de]messagerie ne (supporte|accepte|gere|lit|prend|permet|peut) pas [en charge] [de lire] [afficher] [les|le|l] [messages?|emails?|mails?|courriels?|format|affichage] [au|en|du] [format] html
  (ce message|cet email|ce mail|ce courriel|cette newsletter|cette lettre) (est|a ete|contient) [envoye|redige|ecrit] [au|en|du] [format] html
  pour (lire|visualiser|voir|afficher|consulter) (ce message|cet email|ce mail|ce courriel) [correctement] [veuillez|merci d|il faut] (utiliser|utilisez) un (logiciel|client|programme) (de messagerie|email|de courrier) [compatible|acceptant|supportant|qui accepte|qui supporte] [avec][le|l] [format] html
  si (ce message|cet email|ce mail|ce courriel|cette newsletter) ne saffiche pas [correctement] [(cliquez|clique) ici]
  si vous (ne parvenez pas a|narrivez pas a|ne pouvez pas|avez des difficultes (a|pour)) (lire|visualiser|voir|afficher) (ce message|cet email|ce mail|ce courriel|cette newsletter) [correctement] [(cliquez|clique) ici]
  (voir|afficher|lire|consulter|visualiser|ouvrir) [ce message|cet email|ce mail|ce courriel|cette newsletter|la newsletter] (dans (votre|le|un) navigateur|en ligne)
  (ceci est|cest) un (message|email|mail|courriel) [au format] html
  si vous ne (visualisez|voyez|lisez) pas [correctement] (ce message|cet email|ce mail|ce courriel|cette newsletter) [correctement] [(cliquez|clique) ici]
  [voir|consulter|lire|afficher] [la]version (en ligne|web|html)
  (su|tu) (cliente|programa|gestor|lector) de (correo|email) [electronico] no (soporta|admite|acepta|permite|muestra|es compatible con) [ver|visualizar|el|los] [mensajes|correos|emails] [en|de] [formato] html
  este (mensaje|correo|email|boletin) [electronico] (esta|es|ha sido enviado|fue enviado|contiene) [un (mensaje|correo|email)] [escrito] [en|de] [formato] html
  para (ver|leer|visualizar) este (mensaje|correo|email) [electronico] [correctamente] (utilice|use|utiliza|usa|debe (usar|utilizar)|necesita) un (cliente|programa|gestor|lector) de (correo|email) [electronico] (compatible con|que (soporte|admita)) [el formato] html
  si no (puede|puedes|ve|ves|consigues?|visualizas?) [ver|leer|visualizar] [correctamente] este (mensaje|correo|email|boletin) [electronico] [correctamente|bien] [(haga|haz|pulse|pulsa|pinche|pincha)[ clic| click][ en] aqui]
  (ver|leer|abrir|visualizar) [(este|el) (mensaje|correo|email|boletin) [electronico]] (en (el|su|tu|un) navegador|en linea|online)
  ver [la]version (en linea|online|web|html)
  il (tuo|suo|vostro) (client|programma|software|lettore) (di posta|di email|email) [elettronica] non (supporta|visualizza|gestisce|accetta|e compatibile con|e in grado di visualizzare) [l|il|i|le] [messaggi|email|formato] [in|in formato] html
  (questo messaggio|questa [e]mail|questa newsletter) (e|e stat[oa] inviat[oa]|contiene) [un (messaggio|email)] [in|in formato] html
  per (visualizzare|leggere|vedere) (questo messaggio|questa [e]mail) [correttamente] (utilizzare|utilizza|utilizzi|usare|usa|e necessario) un (client|programma) (di posta|email) [elettronica] (compatibile con|che supporti|che supporta) [il formato|l] html
  se non (visualizzi|visualizza|riesci a|riesce a|leggi|vedi) [leggere|visualizzare|vedere] [correttamente] (questo messaggio|questa [e]mail|questa newsletter) [correttamente] [clicca[re] qui]
  (visualizza|leggi|apri|vedi|guarda) [questo messaggio|questa [e]mail|questa newsletter|la newsletter] (nel|in|sul) [tuo|un|suo] (browser|rete)
  [visualizza |leggi |vedi][la]versione (online|web|html)
  [o] (seu|teu) (cliente|programa|leitor|gestor|aplicativo) de (email|correio) [eletronico|electronico] nao (suporta|aceita|permite|exibe|e compativel com) [ver|exibir|o] [mensagens|emails] [em|no] [formato] html
  (esta mensagem|este email|esta newsletter) (esta|e|foi enviad[oa]|contem) [um[a] (email|mensagem)] [em|no] [formato] html
  para (ver|ler|visualizar) (esta mensagem|este email) [corretamente] (utilize|use|utiliza) um (cliente|programa|leitor) de (email|correio) [eletronico] (compativel com|que suporte) [o formato] html
  (se|caso) nao (consegue|conseguir|consiga|visualiza|visualizar|visualize) [ver|ler|visualizar] [corretamente] (esta mensagem|este email|esta newsletter) [corretamente] [clique aqui]
  (veja|ver|visualize|visualizar|ler|abrir|abra) [esta mensagem|este email|esta newsletter] (no [seu|teu] navegador|online|no browser)
  (uw|je|jouw) [e?mail|mail] (programma|client|software|lezer) (ondersteunt|accepteert) [helaas] geen html [berichten|mails?|emails?|formaat|weergave]
  (uw|je|jouw) [e?mail|mail] (programma|client|software|lezer) kan [helaas] (geen html [berichten|mails?|emails?]|dit bericht niet|deze e?mail niet) (tonen|weergeven|lezen)
  (dit bericht|deze e?mail|deze nieuwsbrief) (is|wordt) [opgesteld|verzonden|geschreven|opgemaakt|alleen beschikbaar] (in|als) html [formaat|opmaak|bericht|e?mail] [verzonden|opgesteld|weergegeven]
  (bekijk|lees|open) [dit bericht|deze e?mail|deze nieuwsbrief|de nieuwsbrief] (in [uw|je|een|de] [web]browser|online)
  (kunt u|kun je|kan je|lukt het niet om) (dit bericht|deze e?mail|deze nieuwsbrief) [niet] [goed|correct] [lezen|bekijken|zien|weergeven] [klik [dan]hier]
  [bekijk][de](online|web|html) (versie)
  (ditt|din) [e post|mejl|mail|epost] (program|klient|lasare) (stoder|stodjer|kan) inte [visa] html [meddelanden|format|mejl|epost]
  (detta|det har) [e post|mejl|mail] (meddelande|meddelandet|mejl|mejlet|mail|mailet|utskick|nyhetsbrev|nyhetsbrevet) (ar|skickas|har skickats) (i|som) html [format]
  (visa|las|oppna) [detta|det har] [e post|mejl|mail] (meddelande|meddelandet|mejl|mejlet|mail|mailet|utskick|nyhetsbrev|nyhetsbrevet) i [din] webblasare [n]
  (dit|din|deres) [e?mail|mail|post] (program|klient) (understotter|kan) ikke [vise] html [e?mails?|beskeder|meddelelser|format]
  (denne|dette) (e?mail|mail|besked|meddelelse|nyhedsbrev) er [sendt|skrevet] (i|som) html [format]
  (vis|se|laes|abn) [denne|dette] (e?mail|mail|mailen|besked|meddelelse|nyhedsbrev|nyhedsbrevet) i [din] browser [en]
  [e post|epost|mail] (programmet|klienten) (ditt|din) (stotter|kan) ikke [vise] html [meldinger|e post|format]
  (ditt|din) [e post|mail] (program|klient) (stotter|kan) ikke [vise] html [meldinger|e post|format]
  (denne|dette) (e posten|epost|meldingen|melding|nyhetsbrevet) er [sendt|skrevet] (i|som) html [format]
  (vis|se|les|apne) [denne|dette] (e posten|eposten|meldingen|nyhetsbrevet) i nettleser [en] [din]
  [sahkoposti|posti] (ohjelmasi|ohjelmanne|lukijasi|sovelluksesi) ei (tue|nayta) html [aa|ta|viesteja|muotoa|sahkopostia|muotoisia viesteja]
  tama [sahkoposti] [viesti|uutiskirje] on [lahetetty] html (muodossa|muotoinen|viesti)
  (katso|nayta|lue|avaa) [tama][sahkoposti] (viesti|uutiskirje) (selaimessa|selaimella|verkossa)
  (twoj|panstwa|pana|pani) (program|klient) (pocztowy|poczty|email|e mail) [elektronicznej] nie (obsluguje|wyswietla|wspiera) [wiadomosci|formatu|listow|emaili] [w formacie] html
  (ta wiadomosc|ten email|ten list|ten newsletter) (jest|zostala wyslana|zostal wyslany|ma) [w] (formacie|format) html
  (zobacz|wyswietl|otworz|przeczytaj) [te |ta |ten](wiadomosc|email|e mail|newsletter|list) (w przegladarce|online)
  jesli [ta](wiadomosc|email|newsletter) nie wyswietla sie (poprawnie|prawidlowo) [kliknij (tutaj|tu)]
  (vas|vase) (e mailovy|emailovy|postovni) (klient|program) nepodporuje [zobrazeni|format|zpravy] [ve formatu] html [zprav|format|zpravy]
  (tato zprava|tento e mail) (je|byla odeslana|byl odeslan) [odeslana|odeslan] [ve] [formatu] html
  (zobrazit|otevrit|precist) [tuto |tento](zpravu|e mail|newsletter) v[e] (prohlizeci|online verzi)
  [a|az] [on] [levelezo|level|email] (programja|kliense|rendszere|szoftvere) nem (tamogatja|jeleniti meg|tudja megjeleniteni) a html [formatumot|leveleket|uzeneteket|t|emaileket]
  ez (az uzenet|a level|az e mail|a hirlevel) html (formatumu|formatumban keszult|alapu)
  (ваш почтовый клиент|ваша почтовая программа|ваша программа|ваш клиент) не (поддерживает|может отобразить|умеет отображать|отображает) [просмотр|отображение|формат|письма|сообщения] [писем|сообщений] [в формате] html [писем|сообщений|письма|сообщения|формат]
  (это|данное) (письмо|сообщение) [отправлено|создано|написано|составлено] [в] [формате] html
  (открыть|посмотреть|просмотреть|смотреть|откроите|посмотрите|прочитать) [это |данное][письмо|сообщение|рассылку] (в [вашем]браузере|онлаин|на саите)
  если [это](письмо|сообщение) (отображается (некорректно|неправильно)|не отображается) [(нажмите|кликните|переидите) (здесь|сюда|по ссылке)]
  (ваш поштовии клієнт|ваша поштова програма) не (підтримує|може відобразити|відображає) [перегляд|формат|листи|повідомлення] [у форматі] html [листів|повідомлень|формат]
  (цеи лист|це повідомлення) [надіслано|створено] [у|в] [форматі] html
  (відкрити|переглянути|подивитися) [цеи |це](лист|повідомлення) (у|в) [вашому](браузері|переглядачі)
  (e posta|email|mail) (istemciniz|programiniz|yaziliminiz|uygulamaniz) html [bicimini|formatini|iletileri|e postalari|icerigini] (desteklemiyor|desteklememektedir|goruntuleyemiyor)
  bu (e posta|ileti|mesaj|bulten) html (biciminde|formatinda|bicimli) [dir|gonderilmistir]
  bu (e postayi|iletiyi|mesaji|bulteni) [web](tarayicinizda|tarayicida) (goruntuleyin|goruntule|acin|okuyun)
  (το προγραμμα|ο πελατης) (ηλεκτρονικου ταχυδρομειου|email|αλληλογραφιας) [σας]δεν υποστηριζει [μηνυματα][σε μορφη]html
  αυτο το (μηνυμα|email) (ειναι|εχει σταλει) σε μορφη html
  (お使いの|ご利用の|ご使用の) (メール[ソフト[ウェア]|クライアント|環境|プログラム|アプリ|ー]|環境|e?メールソフト) (では|は|が) html [メール|形式|表示|形式のメール] (に対応していません|に対応しておりません|を表示できません|を表示することができません|をサポートしていません|は表示できません|を?ご覧いただけません)
  (この|本) (メール|メッセージ|メールマガジン|メルマガ) (は|わ) html [形式|メール|形式のメール] (です|で送信(されています|しています)|で送られています|で作成されています|で(お送り|配信)して(います|おります))
  html [メール|形式] (に対応した|対応の|を表示できる|が表示できる) メール?[ソフト[ウェア]|クライアント|環境|プログラム|アプリ] で (ご覧ください|ご覧下さい|お読みください|表示してください)
  [この] (メール|メッセージ) (を|が) (ブラウザー?|web ブラウザー?|オンライン) で (見る|表示する?|ご覧になる|読む|開く|ご覧いただく) [場合|に] [は|には] [こちら]
  [メール|この メール] [が] (うまく|正しく|正常に) 表示されない (場合|方|とき) [は|わ] (こちら) [から|を クリック[してください]|をご覧ください|へ]
  (您|你) 的 (电子邮件|電子郵件|邮件|郵件|邮箱|信箱|e?mail) (客户端|客戶端|程序|程式|软件|軟體|阅读器|系统|用戶端) (不支持|不支援|无法显示|無法顯示) [显示|查看|顯示|檢視] html [格式|內容|内容] [的] [邮件|郵件|信件|内容]
  (这是|此为|本邮件是|本邮件为|此邮件为|此邮件是|這是|本郵件為|此郵件為|這封郵件是|这封邮件是) [一|1] [封] html [格式] [的] [邮件|郵件|信件]
  (请|請) (使用|用) (支持|支援|能显示|能顯示) html [格式] [的] (电子邮件|電子郵件|邮件|郵件) (客户端|客戶端|程序|程式|软件|軟體|用戶端) [来|來] (查看|阅读|浏览|檢視|閱讀) [此|本|该|这封|這封] [邮件|郵件|信件]
  [请|請] [点击此处|點擊此處|按此] (在|用|使用) (浏览器|瀏覽器|网页|網頁) [中|上] (查看|打开|阅读|浏览|檢視|開啟|閱讀) [此|本|该|这封|這封] [电子邮件|電子郵件|邮件|郵件|信件]
  (如果|若|如) [您|你] (无法|無法|不能) [正常|正确|正確] (查看|显示|阅读|顯示|檢視|閱讀|浏览) (此|本|该|这封|這封) (邮件|郵件|信件) [请|請] [点击此处|点击这里|點擊此處|點擊這裡|按此]
  [귀하의|고객님의|사용하는|사용하시는|사용 중인] (이메일|메일) (클라이언트|프로그램|소프트웨어) (가|이|는|은|에서|에서는) html [을|를|메일을|이메일을|형식을|메일을|형식의 메일을] (지원하지 않습니다|지원하지 않습니다만|표시할 수 없습니다)
  이 (메일|이메일|메시지|뉴스레터) (은|는) html (형식|형식의 메일|메일) (입니다|으로 (작성|발송|전송)되었습니다|로 (작성|발송|전송)되었습니다)
  [웹] (브라우저|온라인) (에서|로) [이] (이메일|메일|메시지) (보기|읽기|열기)
`);
