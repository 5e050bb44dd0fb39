"""The lines that tokenizers are compared on: generated, so that nothing is copied into the tree."""

import random
import unicodedata

SEED = 20261201

WORDS = """the of and to in is that for it was on are as with his they at be this from have or by one
had not but what all were when we there can an your which their said if do will each about how up out
them then she many some so these would other into has more her two like him see time could no make
than first been its who now people my made over did down only way find use may water long little very
after words called just where most know get through back much before go good new write our used me man
too any day same right look think also around another came come work three word must because does part
even place well such here take why help put different away again off went old number great tell men say
small every found still between name should home big give air line set own under read last never us
left end along while might next sound below saw something thought both few those always looked show
large often together asked house don't world going want school important until form food keep children
feet land side without boy once animals life enough took sometimes four head above kind began almost
quantization tokenizer memory attention kernel throughput naïve café déjà façade Zürich coöperate
antidisestablishmentarianism internationalisation hyperparameters backpropagation""".split()
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'LL", "'D",
                "'\u017f", "'l", "'r", "'x", "\u2019s", "'tis", "''s", "'sad", "'REd"]
PUNCTUATION = [",", ".", "!", "?", ";", ":", "...", "\u2026", " -", "\u2014", " \u2013 ", "!!!", "?!", ")", "\"",
               "\u201d", "\u00bb", "/", "\\", "_", "__", "*", "**", "#", "@", "&", "%", "$", "\u20ac", "\u00a3", "~", "^",
               "|", "=>", "<=", "==", "<", ">", "()", "[]", "{}", "`", "```", "\u00a9", "\u2122", "\u00b0"]
SENTENCES = [
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "Todos los seres humanos nacen libres e iguales, ¿verdad? ¡Sí!",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności.",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "人人生而自由，在尊严和权利上一律平等。", "人類全員は、生まれながらにして自由であり、平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm.",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი.", "Բոլոր մարդիկ ծնվում են ազատ ու հավասար։",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul ılık.",
    "ሰው ሁሉ ነጻና እኩል ሆኖ ይወለዳል።", "Kaikki ihmiset syntyvät vapaina ja tasavertaisina.",
]
CODE = [
    "def {a}(self, {b}: int = {n}) -> list[str]:", "    return [{a}[{b}] for {b} in range({n})]",
    "        if {a} is not None and {b} != {n}:  # {w} {w}", "for (size_t {a} = 0; {a} < {n}; ++{a}) {{",
    "\tif ({a} == nullptr || {b}->{a}() >= 0x{h}) return -{n};", "const {a} = async ({b}) => {{ await {b}.{a}(`${{{n}}}`); }};",
    "#include <{a}/{b}.h>", "template <typename T, size_t N = {n}> struct {a} : public {b}<T, N> {{}};",
    "SELECT {a}, COUNT(*) FROM {b} WHERE id = {n} AND name LIKE '%{w}%';", "<div class=\"{a} {b}\" id='{a}-{n}'>{w}&nbsp;{w}</div>",
    "{{\"{a}\": [{n}, {f}, null, true], \"{b}\": {{\"{w}\": \"\\n\\u00e9\"}}}}", "sudo apt-get install -y {a}-{b}={n}:{f}~rc1 && cd ~/{w}/{w}.tar.gz",
    "https://www.{w}.org/{a}/{b}?q={n}&{w}={h}#L{n}", "{a}@{b}.com", "C:\\Users\\{w}\\{a}.exe", "fn {a}<'a>(x: &'a mut {b}) -> Result<(), Box<dyn Error>> {{",
    "\t\t\t{a} := map[string]int{{\"{w}\": {n}}}\r\n", "/* {w} {w}\n * {w}\n */", "% \\begin{{{w}}} $\\alpha_{{{n}}}^{{2}} \\leq {f}$",
    "    {a}    =    {n}   ;   // {w}", "0x{h} 0b1010 {f}e-{n} {n}_000L 1__{n}", "#!/usr/bin/env {w}", "@{a}.{b}(\"{w}\", {w}={n})",
    "\n\n\ndef {a}():\n\n    pass\n\n\n", "|{w}|{n}|{f}|\n|---|---|---|", "- [x] {w} **{w}** _{w}_ ~~{w}~~", "[INFO] 2026-12-01T{n}:00:00.{n}Z {a}={f}ms",
]
BLOCKS = [(0xC0, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F), (0x590, 0x5FF),
          (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7BF), (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xA7F), (0xA80, 0xAFF),
          (0xB00, 0xB7F), (0xB80, 0xBFF), (0xC00, 0xC7F), (0xC80, 0xCFF), (0xD00, 0xD7F), (0xD80, 0xDFF), (0xE00, 0xE7F),
          (0xE80, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F),
          (0x13A0, 0x13FF), (0x1400, 0x167F), (0x1780, 0x17FF), (0x1800, 0x18AF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF),
          (0x2C00, 0x2C5F), (0x3040, 0x30FF), (0x3100, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xA48F),
          (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x10300, 0x1034F), (0x12000, 0x123FF), (0x1D400, 0x1D7FF),
          (0x20000, 0x2A6DF)]
SYMBOLS = [(0x2000, 0x206F), (0x2070, 0x209F), (0x20A0, 0x20BF), (0x2100, 0x214F), (0x2150, 0x218B), (0x2190, 0x21FF),
           (0x2200, 0x22FF), (0x2300, 0x23FF), (0x2460, 0x24FF), (0x2500, 0x259F), (0x25A0, 0x27BF), (0x2800, 0x28FF),
           (0x3000, 0x303F), (0x3200, 0x33FF), (0xE000, 0xE0FF), (0xFE00, 0xFE0F), (0x1F000, 0x1F0FF)]
SPACES = [" ", " ", " ", "\n", "\n", "\t", "\r\n", "\r", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2009",
          "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u180e", "\u200b", "\ufeff", "\x1c", "\x1f"]
NUMBERS = ["0", "1", "42", "007", "1234567890", "3.14159", "1,000,000", "-17", "1e-9", "12:34:56", "2026-12-01", "50%",
           "$9.99", "192.168.0.1", "+49 (0)30 123", "½", "x²+y³", "Ⅷ", "①②③", "٠١٢٣٤", "१२३", "๓๔๕", "１２３", "〇一二三",
           "㊿", "¾", "𝟙𝟚𝟛", "৭৮৯", "10⁻⁶", "H₂O", "1st", "2nd", "1a2b3c", "0xFF", "99,9"]
EMOJI = ["😀", "😂", "🥹", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇺🇸🇯🇵", "❤️", "☺", "1️⃣", "🧑🏿‍🚀", "🫠", "🎉🎉🎉", "✨", "🤷‍♂️",
         "⚠️", "🐍", "🦀", "🔥", "💯", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👨🏻‍❤️‍💋‍👨🏿", "©️", "㊙️", "🀄", "♟️"]
MARKS = ["e\u0301", "a\u030a", "o\u0308\u0304", "n\u0303", "\u1112\u1161\u11ab", "\u1100\u1161", "\u212b", "\u2126", "q\u0307\u0323",
         "\u0915\u093c", "\u0958", "\ufb1d", "\u0344", "\u03b1\u0345", "c\u0327\u0301", "\u0041\u030a\u0301", "\u1e9b\u0323", "\u0301", "\ufb01",
         "\u09c7\u09be", "I\u0307", "\u304b\u3099"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_start", "|im_end|>", "<|", "<tool_call>", "</tool_call>",
           "<bos>", "<eos>", "<pad>", "<unk>", "<start_of_turn>", "<end_of_turn>", "<unused7>", "<unused70>", "<unused707>",
           "<0x41>", "<0xFF>", "[PAD151665]", "[multimodal]", "<start_of_image>", "<table>", "</td>", "<h1>", "<h11>", "\u2581",
           "\u2581\u2581the", "\u0120the", "\u010a", "<file_sep>", "<repo_name>", "<|fim_prefix|>", "<<bos>>", "<bos><eos>", "</s>", "<s>"]


def assigned(rng, low, high):
    while True:
        character = chr(rng.randint(low, high))
        if unicodedata.category(character) not in ("Cn", "Cs"):
            return character


def prose(rng):
    words = []
    for _ in range(rng.randint(2, 14)):
        word = rng.choice(WORDS)
        word = rng.choice([word] * 8 + [word.capitalize(), word.upper(), word + word.title()])
        if rng.random() < 0.12:
            word += rng.choice(CONTRACTIONS)
        if rng.random() < 0.2:
            word += rng.choice(PUNCTUATION)
        if rng.random() < 0.05:
            word = rng.choice(["(", "\"", "\u201c", "\u00ab", "'", "#", "$"]) + word
        words.append(word)
    return rng.choice([" "] * 9 + ["  "]).join(words) + rng.choice([".", ".", "?", "", "\n", " "])


def code(rng):
    def identifier():
        parts = [rng.choice(WORDS[:150]) for _ in range(rng.randint(1, 3))]
        return rng.choice(["_".join(parts), parts[0] + "".join(p.title() for p in parts[1:]),
                           "".join(p.title() for p in parts), "_" + "_".join(parts).upper()])
    line = rng.choice(CODE)
    while "{w}" in line:
        line = line.replace("{w}", rng.choice(WORDS), 1)
    return line.format(a=identifier(), b=identifier(), n=rng.choice([0, 1, 7, 64, 128, 1024, rng.randint(0, 99999)]),
                       h=f"{rng.getrandbits(32):X}", f=f"{rng.uniform(0, 100):.3f}")


def script(rng):
    low, high = rng.choice(BLOCKS)
    words = ["".join(assigned(rng, low, high) for _ in range(rng.randint(1, 7))) for _ in range(rng.randint(1, 5))]
    return rng.choice([" ", " ", "", "\u3000", ", "]).join(words) + rng.choice(["", ".", "\u3002", "\u061f", "\u0964", "!"])


def sentence(rng):
    words = rng.choice(SENTENCES).split(" ")
    start = rng.randrange(len(words))
    text = " ".join(words[start:start + rng.randint(1, 8)])
    return text if rng.random() < 0.8 else text.upper()


def pieces(rng, *sources):
    return "".join(rng.choice(rng.choice(sources)) for _ in range(rng.randint(1, 9)))


def control(rng):
    return "".join(rng.choice([chr(rng.randrange(32)), chr(rng.randint(0x7F, 0x9F)), rng.choice(WORDS), " "])
                   for _ in range(rng.randint(1, 7)))


def anything(rng):
    return "".join(assigned(rng, *rng.choice([(0, 0x7F), (0, 0xFFFF), (0, 0x10FFFF), rng.choice(SYMBOLS)]))
                   for _ in range(rng.randint(1, 12)))


def mixture(rng):
    return rng.choice(["", " ", "\n"]).join(rng.choice([prose, code, script, sentence, anything])(rng)[:24] for _ in range(3))


KINDS = [
    (2400, prose), (2200, code), (1800, script), (900, sentence),
    (700, lambda rng: pieces(rng, EMOJI, WORDS, [" ", ""])),
    (1200, lambda rng: pieces(rng, SPACES, SPACES, WORDS, PUNCTUATION + NUMBERS)),
    (400, control),
    (700, lambda rng: pieces(rng, NUMBERS, [" ", "", "-", "."], WORDS)),
    (500, anything),
    (400, lambda rng: pieces(rng, MARKS, WORDS, [" ", ""])),
    (600, lambda rng: pieces(rng, SPECIAL, [" ", "", "\n"], WORDS)),
    (300, mixture),
    (200, lambda rng: rng.choice([" ", "\n", "a", "=", "-", "0", "\t", "aA", "\u2581", "\u00e9", "ab ", "\U0001f600"])
     * rng.choice([1, 2, 3, 5, 17, 31, 32, 33, 64, 100])),
]


def lines():
    rng = random.Random(SEED)
    made = {make(rng): None for count, make in KINDS for _ in range(count)}  # ordered, no doubles
    return [line for line in made if line]
